import sys

import pytest

from keras_headattn._optional import optional_import


@pytest.mark.parametrize("module, extra, message", [
    ("sklearn.cluster", "recipes",
     r'Install scikit-learn: pip install scikit-learn \(or, in a checkout .*: pip install -e "\.\[recipes\]"\)$'),
    ("rouge_score.rouge_scorer", "metrics", r"Install rouge-score: pip install rouge-score .*\[metrics\]"),
    ("tensorflow", None, "Install tensorflow: pip install tensorflow$"),
])  # fmt: skip
def test_missing_packages_are_named(monkeypatch, module, extra, message):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=message):
        optional_import(module, extra)


def test_a_missing_module_of_this_library_is_no_package_to_install():
    with pytest.raises(ModuleNotFoundError, match="No module named 'keras_headattn.ops._missing'"):
        optional_import("keras_headattn.ops._missing")
