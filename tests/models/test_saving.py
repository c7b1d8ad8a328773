import keras
import pytest

from tests.models.small import shared


@pytest.mark.parametrize("suffix", ("h5", "hdf5"))
def test_hdf5_of_a_whole_model_is_refused(tmp_path, suffix):
    """Keras writes it, and cannot read it again."""
    path = tmp_path / f"model.{suffix}"
    with pytest.raises(ValueError, match="must end in .keras.*Received: filepath="):
        shared().save(path)
    assert not path.exists()


def test_all_models_refuse_it():
    from keras_headattn import decoding, models
    from keras_headattn._model import Model

    classes = [getattr(room, name) for room in (decoding, models) for name in room.__all__]
    classes = [cls for cls in classes if isinstance(cls, type) and issubclass(cls, keras.Model)]
    assert len(classes) > 10 and all(issubclass(cls, Model) for cls in classes)
