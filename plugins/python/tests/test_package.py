"""What the package finds and lacks."""

import os
import shutil
import subprocess
import sys

import pytest

import natgo


def test_python_m_natgo_without_the_program(tmp_path):
    done = _main_of(tmp_path, PATH="/nowhere")
    assert done.returncode == 1 and "cannot find the program nat-go" in done.stderr and "make build" in done.stderr


@pytest.mark.parametrize("place", ["checkout/bin", "elsewhere"])
def test_python_m_natgo_finds_the_program(tmp_path, place):
    program = tmp_path / place / "nat-go"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "this is $0"\n')
    program.chmod(0o755)
    done = _main_of(tmp_path, PATH=f"{tmp_path}/elsewhere:/usr/bin:/bin")
    assert (done.returncode, done.stdout) == (0, f"this is {program}\n")


def _main_of(tmp_path, **environment):
    """Runs `python -m natgo` of a copy of the package in a checkout, with no program beside python."""
    checkout = tmp_path / "checkout"
    shutil.copytree(os.path.dirname(natgo.__file__), checkout / "plugins" / "python" / "natgo")
    code = "import runpy, sysconfig; sysconfig.get_path = lambda *a, **k: '/nowhere'; runpy.run_module('natgo', run_name='__main__')"
    env = {**os.environ, "PYTHONPATH": str(checkout / "plugins" / "python"), **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=tmp_path)


def test_a_missing_package_is_named_with_a_command():
    code = "import sys; sys.modules['datasets'] = sys.modules['xxhash'] = None; import natgo; natgo.rows('/nowhere', 'messages')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "natgo.errors.MissingPackageError: natgo.rows needs the package datasets: pip install datasets"


def test_version():
    assert natgo.__version__[0].isdigit()
