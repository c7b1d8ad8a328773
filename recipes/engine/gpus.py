"""GPUs that are there but cannot be used."""

import shutil

import tensorflow as tf


def report_hidden_gpus():
    """Prints what to install if the machine has NVIDIA GPUs that TensorFlow does not see."""
    if shutil.which("nvidia-smi") and not tf.config.list_physical_devices("GPU"):
        print(
            "This machine has nvidia-smi, but TensorFlow sees no GPU. Its CUDA libraries are installed by: "
            'pip install -e ".[recipes,gpu]"'
        )
