"""The port that an embedder implements."""

from typing import Protocol

import numpy as np
import numpy.typing as npt


class Embedder(Protocol):
    """Turns texts into vectors of one length, and the same text always into the same vector."""

    @property
    def model(self) -> str:
        """The name of the model, as outcomes show it."""
        ...

    def embed(self, text: str) -> npt.NDArray[np.float32]:
        """Return one vector. It is all zeros for a text without anything that the model knows."""
        ...
