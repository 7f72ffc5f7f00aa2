"""What an embedder is."""

from typing import Protocol

import numpy as np
import numpy.typing as npt


class Embedder(Protocol):
    """Turns texts into vectors of one length; the same text always into the same vector."""

    @property
    def model(self) -> str:
        """Name of the model, as outcomes show it."""
        ...

    def embed(self, text: str) -> npt.NDArray[np.float32]:
        """One vector; of zeros for a text without anything the model knows."""
        ...
