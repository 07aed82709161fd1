"""Run the cells of a notebook, in which an event loop is running; print what the last one shows."""

import nbclient
import nbformat

CELLS = [
    "import asyncio\nimport gymnasium as gym\nimport openenv_gym\nasyncio.get_running_loop().is_running()",
    """
env = gym.make("remote/CartPole-v1")
env.reset(seed=0)
rewards = [env.step(step % 2)[1] for step in range(10)]
env.close()
""",
    """
for mode in ("sync", "async"):
    vector = gym.make_vec("remote/CartPole-v1", num_envs=2, vectorization_mode=mode)
    rewards += vector.reset(seed=0)[0].shape
    vector.close()
""",
    "rewards",
]

notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
loop, *_, rewards = (cell.outputs for cell in notebook.cells)
print(loop[-1]["data"]["text/plain"], rewards[-1]["data"]["text/plain"])
