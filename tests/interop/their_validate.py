"""``openenv validate`` with each line of arguments, given as JSON; prints the reports."""

import json
import sys

from openenv.cli.__main__ import app
from typer.testing import CliRunner

runner = CliRunner()
reports = []
for arguments in json.loads(sys.argv[1]):
    result = runner.invoke(app, ["validate", *arguments, "--json"])
    reports.append([result.exit_code, json.loads(result.stdout)])
print(json.dumps(reports))
