"""Private names of Keras and TensorFlow, each with the reason why there is no way around it."""


def global_seed_generator():
    """The generator of `keras.random` functions that are given no seed. Keras makes it on first use.

    `Resume` saves its state, and no public function returns it.
    """
    from keras.src.random.seed_generator import global_seed_generator

    return global_seed_generator()


def existing_seed_generator():
    """The generator of `keras.random`, or `None` if it has not been used yet.

    `Resume` must not make one, as its seed is drawn from Python's generator.
    """
    from keras.src.backend.common.global_state import get_global_attribute
    from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR

    return get_global_attribute(GLOBAL_SEED_GENERATOR)


def forget_seed_generator():
    """Has Keras make another generator of `keras.random` on next use, as `keras.utils.set_random_seed` does.

    `Resume` must not set the seed of anything else.
    """
    from keras.src.backend.common.global_state import set_global_attribute
    from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR

    set_global_attribute(GLOBAL_SEED_GENERATOR, None)
