"""Commands that train, evaluate, export and serve; `python -m recipes` lists them."""

import importlib.util

if missing := [name for name in ("numpy", "keras", "tensorflow") if importlib.util.find_spec(name) is None]:
    raise SystemExit(
        f'error: Packages that recipes need are not installed: {", ".join(missing)}. Run: pip install -e ".[recipes]"'
    )
