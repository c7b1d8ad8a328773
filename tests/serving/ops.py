"""The operations that SavedModels may contain: `ops.txt`, a line for each, with the kinds of models that have it.

python -m tests.serving.ops     writes it anew
"""

import pathlib
import tempfile

from tensorflow.core.protobuf import saved_model_pb2

ALLOWED = pathlib.Path(__file__).with_name("ops.txt")


def operations(path):
    """The operations of a SavedModel: those of its graph and of its functions.

    Args:
        path: of a version.

    Returns:
        Set of str.
    """
    saved_model = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    graph = saved_model.meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return {node.op for node in nodes} - {function.signature.name for function in graph.library.function}


def allowed(kind):
    """The operations that models of a kind may contain.

    Args:
        kind: str, as in `kinds.py`.

    Returns:
        Set of str.
    """
    lines = [line.split() for line in ALLOWED.read_text(encoding="ascii").splitlines()]
    return {name for name, *kinds in lines if kind in kinds}


if __name__ == "__main__":
    from tests.serving.kinds import Exports

    with tempfile.TemporaryDirectory() as folder:
        found = {kind: operations(export.path) for kind, export in Exports(folder).items()}
    names = sorted(set().union(*found.values()))
    lines = [" ".join([name, *(kind for kind in found if name in found[kind])]) for name in names]
    ALLOWED.write_text("\n".join(lines) + "\n", encoding="ascii")
    print(f"Written: {ALLOWED}, {len(lines)} operations")
