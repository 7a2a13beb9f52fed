# The function of scipy.sparse.linalg that onestride calls, with the arguments it gives: SciPy ships no types.
from typing import Any, Literal

from numpy.typing import NDArray

def svds(A: NDArray[Any], k: int, *, v0: NDArray[Any], return_singular_vectors: Literal[False]) -> NDArray[Any]: ...
def __getattr__(name: str) -> Any: ...
