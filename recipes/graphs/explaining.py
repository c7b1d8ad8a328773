"""Pictures and a page of a run's attention and copies while it writes the texts of graphs."""

import itertools

from keras_headattn.analysis import write_attention_page
from recipes.engine.command import portions
from recipes.engine.finished import explained, indices, save
from recipes.graphs.drawings import draw_copies, draw_graph_attention
from recipes.graphs.files import graph_of_line
from recipes.graphs.maps import graph_maps
from recipes.graphs.train import load_graph_to_text


def explain(run, config, options):
    """Prints the texts of the first graphs of a file. Writes two pictures of each and a page of all.

    They are in the folder `explained/FILE` of the run, which has finished, the next time in `FILE-2`.
    """
    num_blocks = config.model_argument("num_layers")
    block = -1 if options.block is None else indices("--block", [options.block], num_blocks)[0]
    lines = itertools.islice(itertools.chain.from_iterable(portions(options.file)), options.examples)
    graphs = {
        line_number: graph_of_line(line, line_number, config.max_entities)
        for line_number, line in enumerate(lines, 1)
        if line
    }
    if not graphs:
        raise ValueError(f"The file must have at least one graph. Received: {options.file}, which is empty")
    model = run.load_model()
    graph_to_text = load_graph_to_text(run, config, model)
    heads = options.heads and indices("--heads", options.heads, model.encoder.blocks[block].attention.num_heads)
    folder, examples = explained(run.folder, options.file), []
    folder.mkdir(parents=True, exist_ok=True)
    for (line_number, graph), description in zip(graphs.items(), graph_to_text(list(graphs.values())), strict=True):
        print(f"{line_number}: {description.text}")
        if not description.tokens:
            continue
        maps = graph_maps(model, graph_to_text.vocabulary, graph, description.tokens)
        save(draw_graph_attention(maps, block, heads), folder / f"{line_number}_attention.png")
        save(draw_copies(maps), folder / f"{line_number}_copies.png")
        examples.append(maps.example(f"Graph {line_number}: {', '.join(graph.entities)}"))
    if examples:
        write_attention_page(folder / "index.html", examples, title=f"Graphs and texts of {run.folder.name}")
        print(folder / "index.html")
