"""Pass rates as the authors of PPI++ compute them, for tests/data/vectors/prediction_powered.json.

Their package is no dependency of ours, and the project runs without it:

    uv run --no-project --with ppi-python==0.2.3 python tests/support/ppi_reference.py > prediction_powered.json
"""

import json
from importlib.metadata import version
from typing import Any

import numpy as np
import scipy
from ppi_py import ppi_mean_ci, ppi_mean_pointestimate
from ppi_py.ppi import _calc_lam_glm

# The labelled traces: passed by both, by the judge alone, by the label alone, by neither; then those without a label,
# which the judge passes and fails.
CASES = {
    "a good judge": (36, 3, 2, 9, 340, 110),
    "a mild judge": (60, 7, 10, 23, 590, 310),
    "a weak judge": (45, 14, 20, 21, 560, 340),
    "a judge that guesses": (35, 15, 35, 15, 450, 450),
    "a judge that says the contrary": (10, 30, 50, 10, 400, 500),
    "a judge that makes no error": (40, 0, 0, 10, 350, 100),
    "nearly all pass": (48, 1, 1, 0, 440, 10),
    "all pass": (50, 0, 0, 0, 450, 0),
    "the judge passes everything": (60, 20, 0, 0, 400, 0),
    "nearly all are labelled": (300, 40, 30, 130, 70, 30),
    "the judge passes far less of what has no label": (40, 0, 0, 10, 300, 150),
    "the judge passes the same share of both parts": (60, 10, 5, 25, 630, 270),
    "many labels": (1100, 150, 120, 630, 6200, 3800),
}


def main() -> None:
    """Print the file."""
    meta = {
        "what": "Values produced by running the published package on the given inputs; null = it returned NaN",
        "package": f"ppi-python {version('ppi-python')} from PyPI",
        "paper": "Angelopoulos, Duchi and Zrnic 2023, PPI++: Efficient Prediction-Powered Inference (arXiv 2311.01453)",
        "environment": f"numpy {np.__version__}, scipy {scipy.__version__}",
        "script": "tests/support/ppi_reference.py",
        "fields": {
            "labelled": "traces that pass by both, by the judge alone, by the label alone, by neither",
            "unlabelled": "traces that the judge passes, and fails",
            "estimate": "ppi_mean_pointestimate, lam=None",
            "lam": "the weight that it takes, of _calc_lam_glm as it calls it",
            "interval": "ppi_mean_ci, alpha=0.05, lam=None",
        },
    }
    print(json.dumps({"meta": meta, "cases": [computed(name, counts) for name, counts in CASES.items()]}))


def computed(name: str, counts: tuple[int, ...]) -> dict[str, Any]:
    """Compute one case."""
    label = np.repeat([1.0, 0.0, 1.0, 0.0], counts[:4])
    judged = np.repeat([1.0, 1.0, 0.0, 0.0], counts[:4])
    others = np.repeat([1.0, 0.0], counts[4:])
    middle = ppi_mean_pointestimate(label, judged, others, lam=1)
    lam = _calc_lam_glm(label - middle, judged - middle, others - middle, np.eye(1), clip=True)
    estimate = ppi_mean_pointestimate(label, judged, others)
    low, high = ppi_mean_ci(label, judged, others, alpha=0.05)
    values = {
        "estimate": _number(estimate),
        "lam": _number(lam),
        "interval": [_number(low), _number(high)],
    }
    if values["lam"] is not None:
        assert np.isclose(ppi_mean_pointestimate(label, judged, others, lam=lam), estimate)
    return {"name": name, "labelled": counts[:4], "unlabelled": counts[4:], **values}


def _number(value: Any) -> float | None:
    number = float(np.asarray(value).item())
    return None if np.isnan(number) else number


if __name__ == "__main__":
    main()
