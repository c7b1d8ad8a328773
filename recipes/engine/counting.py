"""Layers and heads as a user counts them, from 1."""


def chosen_layers(paths, numbers=None):
    """The layers of some numbers.

    Args:
        paths: paths of all layers, in their order.
        numbers: list of int, from 1, or from the last, -1. Default `None`: the last three that there are.

    Returns:
        Dictionary of a number, from 1, to a path.

    Raises:
        ValueError: if there is no such layer.

    >>> chosen_layers(["a", "b"])
    {1: 'a', 2: 'b'}
    >>> chosen_layers(["a", "b"], [-1])
    {2: 'b'}
    """
    paths = list(paths)
    if numbers is None:
        return dict(list(enumerate(paths, 1))[-3:])
    wrong = [number for number in numbers if not 1 <= abs(number) <= len(paths)]
    if wrong:
        raise ValueError(
            f"The model has {len(paths)} attention layers, counted from 1. "
            f"Received: --layers {' '.join(map(str, wrong))}"
        )
    places = [number - 1 if number > 0 else len(paths) + number for number in numbers]
    return {place + 1: paths[place] for place in places}


def indices(option, numbers, count):
    """The indices, from 0, of what is counted from 1.

    Args:
        option: str, the command line's, such as `"--heads"`.
        numbers: list of int.
        count: int, how many there are.

    Returns:
        List of int.

    Raises:
        ValueError: if there is no such one.

    >>> indices("--heads", [1, 3], 4)
    [0, 2]
    """
    if wrong := [number for number in numbers if not 1 <= number <= count]:
        raise ValueError(f"There are {count}, counted from 1. Received: {option} {' '.join(map(str, wrong))}")
    return [number - 1 for number in numbers]
