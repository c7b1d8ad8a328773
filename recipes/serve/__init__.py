"""A local server of SavedModels; `python -m recipes.serve` starts it."""

from keras_headattn._optional import optional_import
from recipes.engine.command import one_line_errors

with one_line_errors():
    for package in ("starlette", "uvicorn"):
        optional_import(package, extra="serving")
