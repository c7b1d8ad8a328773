import keras

ATTENTION, FEED_FORWARD = r".*attention(_\d+)?", r".*feed_forward(_\d+)?"


def layout_map(device_mesh: keras.distribution.DeviceMesh, axis: str = "model") -> keras.distribution.LayoutMap:
    """Returns the layouts that split attention heads and feed-forward layers over devices.

    Each device computes some of the heads, and some of the units between the two dense layers of `FeedForward`. Other
    weights are copied to every device, among them those that mix heads. For `keras.distribution.ModelParallel`, on JAX.

    Source: Shoeybi et al. 2019, "Megatron-LM: Training multi-billion parameter language models using model
    parallelism", section 3.

    Args:
        device_mesh: `keras.distribution.DeviceMesh`. The size of its axis must divide the numbers of query heads, of
            key and value heads, and of units.
        axis: name of the axis of the mesh to split over.

    Returns:
        `keras.distribution.LayoutMap` from paths of weights to layouts, to which others can be added.

    Raises:
        ValueError: if the mesh has no such axis.

    >>> mesh = keras.distribution.DeviceMesh((1, 1), ("batch", "model"), ["cpu:0"])
    >>> layout_map(mesh)["bert/block_0/attention/query/kernel"].axes
    (None, 'model', None)
    """
    if axis not in device_mesh.axis_names:
        raise ValueError(f"`axis` must be one of {device_mesh.axis_names}, axes of the mesh. Received: axis={axis!r}")
    layouts = keras.distribution.LayoutMap(device_mesh)
    layouts[f"{ATTENTION}/(query|key|value|gate)/kernel"] = (None, axis, None)
    layouts[f"{ATTENTION}/(query|key|value|gate)/bias"] = (axis, None)
    layouts[".*attention_output/kernel"] = (axis, None, None)
    layouts[f"{FEED_FORWARD}/(inner|gate)/kernel"] = (None, axis)
    layouts[f"{FEED_FORWARD}/(inner|gate)/bias"] = (axis,)
    layouts[f"{FEED_FORWARD}/outer/kernel"] = (axis, None)
    return layouts
