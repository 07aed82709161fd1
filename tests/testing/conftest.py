from __future__ import annotations

import gymnasium as gym

#: Before 1.4 Gymnasium's own vector environments break rules, which is not what these tests are about.
collect_ignore_glob = ["test_vector*.py"] if gym.__version__ < "1.4" else []
