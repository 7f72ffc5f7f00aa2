"""The `sitecustomize` that Python imports when a process below `agenteval run` starts: it attaches the processor."""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _run_next_sitecustomize() -> None:
    """Run the `sitecustomize` that this one hides, under its own name."""
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _attach() -> None:
    try:
        from otel_agenteval.attachment import attach_from_environment  # noqa: PLC0415
    except ImportError as error:
        # A child process may run another Python, which does not have our package.
        sys.stderr.write(f"agenteval: {sys.executable} runs without evaluation: {error}\n")
        return
    attach_from_environment()


try:
    _run_next_sitecustomize()
finally:
    _attach()
