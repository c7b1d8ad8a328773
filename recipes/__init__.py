"""Commands that train, evaluate, export and serve; `python -m recipes` lists them."""

import importlib.util
import os

if missing := [name for name in ("numpy", "keras", "tensorflow") if importlib.util.find_spec(name) is None]:
    raise SystemExit(
        f'error: Packages that recipes need are not installed: {", ".join(missing)}. Run: pip install -e ".[recipes]"'
    )

from recipes.engine.quiet import held_back  # noqa: E402

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with held_back():
    import keras_headattn  # noqa: E402, F401
