"""What the flags of `--on spark` mean, without Spark."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from framework.errors import ConfigError
from framework.launch.config import add_flags
from operators.control.spark_flags import add_spark_flags, options_from_flags
from operators.spark.launch.session import SparkOptions, _settings

QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def options(*argv: str) -> SparkOptions | None:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    add_spark_flags(parser)
    return options_from_flags(parser.parse_args(argv))


def test_flags_say_which_spark(tmp_path: Path):
    module = tmp_path / "functions.py"
    module.touch()
    assert options("-n2") is None
    assert options("--on", "spark") == SparkOptions()
    assert options(
        *(
            "--on",
            "spark",
            "--master",
            "yarn",
            "--conf",
            "a.b=c=d",
            "--conf",
            "e=f",
            "--py-files",
            f"{module},{tmp_path}",
        )
    ) == SparkOptions("yarn", (("a.b", "c=d"), ("e", "f")), (module, tmp_path))


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--py-files", "a.py"], "--py-files goes with --on spark"),
        (["--on", "spark", "--hostfile", "hosts"], "--hostfile does not go with --on spark"),
        (["--on", "spark", "--secret-file", "s"], "each run has a secret of its own"),
        (["--on", "spark", "--conf", "=x"], "--conf '=x': write KEY=VALUE"),
        (["--on", "spark", "--py-files", "none.py"], "there is no file none.py"),
    ],
)
def test_flags_that_make_no_sense(argv: list[str], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        options(*argv)


@pytest.mark.parametrize(
    ("given", "submitted", "settings"),
    [
        (SparkOptions(), False, {**QUIET, "spark.master": "local[*]", "spark.ui.enabled": "false", **LOOPBACK}),
        (SparkOptions(), True, QUIET),
        (SparkOptions("yarn"), False, {**QUIET, "spark.master": "yarn", "spark.ui.enabled": "false"}),
        (
            SparkOptions(conf=(("spark.master", "spark://a:1"), ("spark.log.level", "INFO"))),
            False,
            {**QUIET, "spark.master": "spark://a:1", "spark.ui.enabled": "false", "spark.log.level": "INFO"},
        ),
    ],
)
def test_a_session_is_quiet_and_a_local_one_stays_on_this_machine(
    given: SparkOptions, submitted: bool, settings: dict[str, str]
):
    assert _settings(given, submitted=submitted) == settings


def test_no_command_and_no_job_loads_spark_unless_it_runs_there():
    program = "import sys, operators, operators.control.run_job, operators.control.cli; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
