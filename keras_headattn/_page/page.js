// Draws what heads attend to. All text comes into the page as textContent. Styles are set one property at a time, which a
// strict Content-Security-Policy allows.
"use strict";

const $ = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const number = (value) => (Math.abs(value) < 0.0005 ? "0" : value.toFixed(3).replace("-", "\u2212"));
const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

const SCORE = "The log probability of the answer, divided by a penalty for its length";

// Pieces ------------------------------------------------------------------------------------------------------------

function shownPieces(pieces) {
  const joined = pieces.some((piece) => !piece.unknown && piece.startsWith("\u2581"));
  return pieces.map((piece) => {
    if (piece.unknown) return { text: piece.text, space: true, unknown: true };
    const space = !joined || piece.startsWith("\u2581") || /^<.*>$/.test(piece);
    const text = (joined ? piece.replaceAll("\u2581", " ").trim() : piece.replaceAll("\n", "\u21b5").replace(/^ +$/, "")) || "\u2423";
    return { text, space, special: /^(<.+>|\[[A-Z]+\])$/.test(piece) || text === "\u2423" };
  });
}

const isUnknown = (piece) => piece === "<unk>" || piece === "[UNK]";

// Pieces with the words of the text in the place of the tokenizer's unknown symbol, as far as the text has the others.
function withUnknown(pieces, asked) {
  if (!pieces.some(isUnknown)) return pieces;
  const joined = pieces.some((piece) => piece.startsWith("\u2581"));
  const text = ` ${asked.trim().replace(/\s+/g, " ")}`;
  let place = 0;
  // Where a piece is in the rest of the text; a special one, such as `</s>`, is at its end.
  const find = (piece) => {
    if (/^[<[].+[>\]]$/.test(piece)) return [text.length, 0];
    const letters = piece.replaceAll("\u2581", " ").replace(/^##/, "").toLowerCase();
    return [text.toLowerCase().indexOf(letters, place), letters.length];
  };
  return pieces.map((piece, index) => {
    if (!isUnknown(piece)) {
      const [start, length] = find(piece);
      if (start >= 0 && start < text.length) place = start + length;
      return piece;
    }
    const word = text.slice(place).match(/^\s*([\p{L}\p{N}\p{M}]+|\S)/u)?.[0] ?? "";
    const end = joined ? find(pieces[index + 1] ?? "</s>")[0] : place + word.length;
    const unknown = text.slice(place, end).trim();
    if (end < place || !unknown) return piece;
    place = end;
    return { text: unknown, unknown: true };
  });
}

const classesOf = (piece, name) =>
  [name, piece.space && "space", piece.special && "special", piece.unknown && "unknown", /\s/.test(piece.text) && "phrase"].filter(Boolean).join(" ");

// An element's colour: its opacity is the weight's part of the largest. Without a weight it has none.
function shade(element, weight, most) {
  if (weight === null) {
    element.style.setProperty("--shade", "0");
    element.removeAttribute("title");
    delete element.dataset.sign;
    return;
  }
  const part = most > 0 ? Math.min(1, Math.abs(weight) / most) : 0;
  element.style.setProperty("--shade", part.toFixed(4));
  element.style.setProperty("--shade-color", weight < 0 ? "var(--negative)" : "var(--positive)");
  if (weight < 0 && part > 0.05) element.dataset.sign = "negative";
  else delete element.dataset.sign;
  element.title = number(weight);
}

// Views -------------------------------------------------------------------------------------------------------------
//
// A view: {model, score, answer, classes: [[name, share]], note, image, layers}. A layer: {name, keys, queries, weights,
// size}: the texts of what is attended to and of what attends, weights [head][query][key], and of images the size of the
// grid. Without queries the weights are [head][key].

class View {
  constructor(view) {
    this.view = view;
    this.layer = view.layers.at(-1);
    this.chosen = { side: "queries", index: 0 };
    this.head = null;
    this.said = make("p", { class: "said", role: "status", "aria-live": "polite" });
    this.element = make("section", { class: "view", "aria-label": view.model });
    this.element.append(this.titleLine(), ...this.answerLines());
    if (!view.layers.length) return;
    this.texts = make("div", { class: "texts" });
    this.controls = make("div", { class: "bar-of-controls" });
    this.heads = make("ul", { class: "heads", "aria-label": "Heads" });
    this.table = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Weights as a table" });
    const details = make(
      "details",
      { ontoggle: () => this.drawTable() },
      make("summary", { text: "Weights as a table" }),
      this.table,
    );
    this.details = details;
    this.element.append(this.texts, this.said, this.controls, this.heads, details);
    this.drawLayer();
  }

  titleLine() {
    const line = make("div", { class: "title" }, make("h2", { text: this.view.model }));
    if (this.view.score !== undefined)
      line.append(make("span", { class: "score", title: SCORE, text: `score ${number(this.view.score)}, surer near 0` }));
    return line;
  }

  answerLines() {
    const { answer, classes, note } = this.view;
    const lines = [];
    if (answer !== undefined) lines.push(make("p", { class: "answer", dir: "auto", text: answer }));
    if (classes) lines.push(make("ul", { class: "classes", "aria-label": "Classes" }, ...classes.map(classLine)));
    if (note) lines.push(make("p", { class: "said", text: note }));
    return lines;
  }

  get isSelf() {
    return this.layer.queries && this.layer.queries === this.layer.keys;
  }
  // What the rows and the columns of a map are.
  get axes() {
    return this.isSelf ? ["the word that looks", "what it looks at"] : ["written", "read"];
  }
  get coloured() {
    return !this.layer.queries || this.chosen.side === "queries" ? "keys" : "queries";
  }

  // Weights of a head at what is chosen, one for each element that is coloured.
  weightsOf(head) {
    const weights = this.layer.weights[head];
    if (!this.layer.queries) return weights;
    const { side, index } = this.chosen;
    return side === "queries" ? weights[index] : weights.map((row) => row[index]);
  }

  meanWeights() {
    const heads = this.head === null ? this.layer.weights.keys() : [this.head];
    const rows = [...heads].map((head) => this.weightsOf(head));
    return rows[0].map((_, place) => rows.reduce((sum, row) => sum + row[place], 0) / rows.length);
  }

  drawLayer() {
    const { layer } = this;
    this.most = largest(layer.weights.flat(2));
    this.signed = layer.weights.flat(2).some((weight) => weight < 0);
    const length = layer.size ? layer.size[0] * layer.size[1] : (layer.queries ?? layer.keys).length;
    this.chosen = {
      side: "queries",
      index: layer.size ? Math.floor(layer.size[0] / 2) * layer.size[1] + Math.floor(layer.size[1] / 2) : 0,
    };
    if (this.chosen.index >= length) this.chosen.index = 0;
    if (this.head !== null && this.head >= layer.weights.length) this.head = null;
    this.drawTexts();
    this.drawControls();
    this.drawHeads();
    this.update();
  }

  drawTexts() {
    const { layer } = this;
    this.words = {};
    if (layer.size) {
      this.texts.replaceChildren(this.pictureButton());
      return;
    }
    const lines =
      layer.queries && !this.isSelf
        ? [
            ["keys", "Read"],
            ["queries", "Written"],
          ]
        : [["keys", layer.title ?? "Read"]];
    this.texts.replaceChildren(
      ...lines.map(([side, title]) => {
        const words = make("p", { class: "words", dir: "auto", role: "group", "aria-label": `${title}: words` });
        this.words[side] = shownPieces(layer[side]).map((piece, index) => this.wordButton(piece, side, index));
        words.append(...this.words[side]);
        words.addEventListener("keydown", (event) => this.step(event, side));
        return make("div", {}, make("h3", { text: title }), words);
      }),
    );
  }

  wordButton(piece, side, index) {
    const choose = () => this.choose(this.isSelf || !this.layer.queries ? "queries" : side, index);
    return make("button", {
      type: "button",
      class: classesOf(piece, "word"),
      ...(piece.unknown && { "aria-label": `${piece.text}, a word that the model does not know` }),
      text: piece.text,
      tabindex: "-1",
      "aria-pressed": "false",
      onpointerenter: choose,
      onfocus: choose,
      onclick: choose,
    });
  }

  pictureButton() {
    const [rows, columns] = this.layer.size;
    const button = make(
      "button",
      { type: "button", class: "picture" },
      make("img", { src: this.view.image, alt: "" }),
      make("span", { class: "mark" }),
    );
    this.picture = button;
    const at = (event) => {
      const box = button.getBoundingClientRect();
      const place = (offset, size, count) => Math.min(count - 1, Math.max(0, Math.floor((offset / size) * count)));
      this.choose(
        "queries",
        place(event.clientY - box.top, box.height, rows) * columns +
          place(event.clientX - box.left, box.width, columns),
      );
    };
    button.addEventListener("pointermove", at);
    button.addEventListener("keydown", (event) => {
      const row = Math.floor(this.chosen.index / columns),
        column = this.chosen.index % columns;
      const moves = {
        ArrowUp: [row - 1, column],
        ArrowDown: [row + 1, column],
        ArrowLeft: [row, column - 1],
        ArrowRight: [row, column + 1],
      };
      const [r, c] = moves[event.key] ?? [-1, -1];
      if (event.key in moves) event.preventDefault();
      if (r >= 0 && r < rows && c >= 0 && c < columns) this.choose("queries", r * columns + c);
    });
    return button;
  }

  // Left and right go from word to word; Tab goes on to the next text.
  step(event, side) {
    const words = this.words[side];
    const now = words.indexOf(document.activeElement);
    const forward = getComputedStyle(words[0].parentElement).direction === "rtl" ? -1 : 1;
    const next = { ArrowRight: now + forward, ArrowLeft: now - forward, Home: 0, End: words.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    words[Math.max(0, Math.min(words.length - 1, next))].focus();
  }

  // Chooses a word here, and in the other view where it has the same words.
  choose(side, index) {
    for (const view of views) {
      const isChosen = view.chosen.side === side && view.chosen.index === index;
      if (isChosen || !view.layer || view.wordsOf(side) !== this.wordsOf(side)) continue;
      view.chosen = { side, index };
      view.update();
    }
  }

  wordsOf(side) {
    return JSON.stringify([this.layer[side] ?? this.layer.keys, this.layer.size]);
  }

  drawControls() {
    const { layers } = this.view;
    const select = make("select", {
      onchange: () => {
        this.layer = layers[select.selectedIndex];
        this.drawLayer();
        select.focus();
      },
    });
    select.append(...layers.map((layer) => make("option", { text: layer.name })));
    select.selectedIndex = layers.indexOf(this.layer);
    this.select = select;
    const legend = make("span", { class: `legend ${this.signed ? "two" : "one"}` });
    this.legend = legend;
    this.controls.replaceChildren(make("label", {}, "Layer", select), legend);
  }

  drawLegend(most) {
    const ends = this.signed
      ? [make("span", { class: "key-negative", text: number(-most) }), number(most)]
      : ["0", number(most)];
    this.legend.replaceChildren(ends[0], make("i"), ends[1]);
  }

  drawHeads() {
    const { layer } = this;
    this.heads.style.setProperty("--least", layer.size ? "9.5rem" : "13rem");
    this.cards = layer.weights.map((weights, head) => {
      const button = make("button", {
        type: "button",
        text: layer.weights.length > 1 ? `Head ${head + 1}` : "Map",
        "aria-pressed": String(this.head === head),
        onclick: () => this.toggle(head),
      });
      const strip = make("p", { class: "strip", dir: "auto" });
      const card = { button, strip, element: make("li", { class: "head" }, button) };
      if (layer.queries) {
        card.canvas = make("canvas", { role: "img", "aria-label": `Map of head ${head + 1}` });
        card.mark = make("span", { class: "mark" });
        card.map = make(
          "div",
          { class: "map" },
          ...(layer.size ? [make("img", { src: this.view.image, alt: "" })] : []),
          card.canvas,
          card.mark,
        );
        if (!layer.size) {
          const [rows, columns] = this.axes;
          card.canvas.setAttribute("aria-label", `Map of head ${head + 1}: rows are ${rows}, columns ${columns}`);
          const axes = [`\u2193 ${rows}`, `${columns} \u2192`].map((text) => make("span", { text }));
          card.element.append(make("p", { class: "axes", "aria-hidden": "true" }, ...axes));
          this.watchMap(card, weights);
        }
        card.element.append(card.map);
      }
      if (!layer.size) card.element.append(strip);
      return card;
    });
    this.heads.replaceChildren(...this.cards.map((card) => card.element));
    this.paint();
  }

  watchMap(card, weights) {
    card.map.addEventListener("pointermove", (event) => {
      const box = card.canvas.getBoundingClientRect();
      const row = Math.floor(((event.clientY - box.top) / box.height) * weights.length);
      if (row >= 0 && row < weights.length) this.choose("queries", row);
    });
  }

  toggle(head) {
    this.head = this.head === head ? null : head;
    this.cards.forEach((card, other) => card.button.setAttribute("aria-pressed", String(other === this.head)));
    this.update();
  }

  // Maps of text are painted once. Those over an image are of the patch that is chosen.
  paint() {
    if (!this.layer?.queries || this.layer.size) return;
    this.cards.forEach((card, head) => paintMap(card.canvas, this.layer.weights[head], this.most));
  }

  update() {
    if (!this.layer) return;
    const { layer, coloured, chosen } = this;
    const mean = this.meanWeights();
    const scale = layer.size ? largest(this.cards.flatMap((_, head) => this.weightsOf(head))) : this.most;
    this.drawLegend(scale);
    for (const [side, words] of Object.entries(this.words)) {
      const place = side === chosen.side || this.isSelf || !layer.queries ? chosen.index : -1;
      words.forEach((word, index) => {
        shade(word, side === coloured ? mean[index] : null, scale);
        word.setAttribute("aria-pressed", String(index === place));
        word.tabIndex = index === Math.max(place, 0) ? 0 : -1;
      });
    }
    const pieces = layer.size ? null : shownPieces(layer[coloured]);
    this.cards.forEach((card, head) => {
      const weights = this.weightsOf(head);
      if (layer.size) this.updatePatch(card, weights, scale);
      else this.updateStrip(card, pieces, weights, scale);
    });
    if (layer.size) placeMark(this.picture, layer.size, chosen.index);
    this.say();
    this.drawTable();
  }

  updatePatch(card, weights, scale) {
    const [rows, columns] = this.layer.size;
    const grid = Array.from({ length: rows }, (_, row) => weights.slice(row * columns, (row + 1) * columns));
    paintMap(card.canvas, grid, scale, "--over-");
    placeMark(card.map, this.layer.size, this.chosen.index);
  }

  updateStrip(card, pieces, weights, scale) {
    if (card.side !== this.coloured) {
      card.side = this.coloured;
      // Spaces of the text, so that lines break between words.
      card.strip.replaceChildren(
        ...pieces.flatMap((piece) => [
          piece.space ? " " : "",
          make("span", { class: `${piece.special ? "special" : ""} ${piece.unknown ? "unknown" : ""}`, text: piece.text }),
        ]),
      );
    }
    pieces.forEach((_, index) => shade(card.strip.children[index], weights[index], scale));
    if (!card.mark) return;
    const size = [this.layer.queries.length, this.layer.keys.length],
      { side, index } = this.chosen;
    placeMark(
      card.map,
      size,
      side === "queries" ? index * size[1] : index,
      side === "queries" ? [1, size[1]] : [size[0], 1],
    );
  }

  // What a screen reader says of the word that is chosen.
  say() {
    const { layer, coloured, chosen } = this;
    if (layer.size) {
      const [, columns] = layer.size;
      const place = (index) => `row ${Math.floor(index / columns) + 1}, column ${(index % columns) + 1}`;
      const best = this.cards.map((_, head) => strongest(this.weightsOf(head)));
      this.picture.setAttribute(
        "aria-label",
        `Picture, ${place(chosen.index)} of ${layer.size[0]} by ${columns}; arrow keys move`,
      );
      this.said.textContent =
        `From ${place(chosen.index)}: ` +
        best
          .map(([index, weight], head) => `head ${head + 1} to ${place(index)} (${number(weight)})`)
          .slice(0, 4)
          .join(", ");
      return;
    }
    const [index, weight] = strongest(this.meanWeights());
    const together = layer.weights.length > 1 ? `${layer.weights.length} heads together` : "one map";
    const heads = this.head === null ? together : `head ${this.head + 1}`;
    const target = shownPieces(layer[coloured])[index].text;
    if (!layer.queries) {
      const share = this.meanWeights()[chosen.index];
      this.said.textContent = `${heads}: most to \u201c${target}\u201d (${number(weight)}); to \u201c${shownPieces(layer.keys)[chosen.index].text}\u201d ${number(share)}`;
      return;
    }
    const word = shownPieces(layer[chosen.side])[chosen.index].text;
    const verb =
      chosen.side === "queries" ? (this.isSelf ? "looks at" : "was written looking at") : "was looked at for";
    this.said.textContent = `\u201c${word}\u201d ${verb} \u201c${target}\u201d most: ${number(weight)}, ${heads}`;
  }

  drawTable() {
    if (!this.details.open || this.layer.size) {
      this.details.hidden = Boolean(this.layer.size);
      return;
    }
    this.details.hidden = false;
    const pieces = shownPieces(this.layer[this.coloured]);
    const header = make(
      "tr",
      {},
      make("th", { scope: "col", text: "Head" }),
      ...pieces.map((piece) => make("th", { scope: "col", text: piece.text })),
    );
    const rows = this.cards.map((_, head) =>
      make(
        "tr",
        {},
        make("th", { scope: "row", text: String(head + 1) }),
        ...this.weightsOf(head).map((weight) => make("td", { text: number(weight) })),
      ),
    );
    this.table.replaceChildren(make("table", {}, make("thead", {}, header), make("tbody", {}, ...rows)));
  }
}

function classLine([name, share]) {
  const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("span"));
  bar.firstChild.style.setProperty("--share", String(share));
  return make("li", {}, make("span", { text: name }), bar, make("span", { class: "number", text: number(share) }));
}

const strongest = (weights) =>
  weights.reduce(
    (best, weight, index) => (Math.abs(weight) > Math.abs(best[1]) ? [index, weight] : best),
    [0, weights[0]],
  );

function placeMark(box, [rows, columns], index, [tall, wide] = [1, 1]) {
  const row = Math.floor(index / columns),
    column = index % columns;
  const sides = {
    top: row / rows,
    bottom: 1 - (row + tall) / rows,
    left: column / columns,
    right: 1 - (column + wide) / columns,
  };
  for (const [side, part] of Object.entries(sides)) box.style.setProperty(`--${side}`, `${(100 * part).toFixed(3)}%`);
}

function paintMap(canvas, rows, most, prefix = "--") {
  canvas.width = rows[0].length;
  canvas.height = rows.length;
  canvas.style.setProperty("--columns", String(canvas.width));
  canvas.style.setProperty("--rows", String(canvas.height));
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(canvas.width, canvas.height);
  const colors = { true: colorOf(`${prefix}negative`), false: colorOf(`${prefix}positive`) };
  rows.flat().forEach((weight, place) => {
    pixels.data.set(colors[weight < 0], 4 * place);
    pixels.data[4 * place + 3] = most > 0 ? Math.round((255 * Math.min(most, Math.abs(weight))) / most) : 0;
  });
  context.putImageData(pixels, 0, 0);
}

function colorOf(variable) {
  const probe = document.body.appendChild(make("span", { hidden: "" }));
  probe.style.setProperty("color", `var(${variable})`);
  const found = getComputedStyle(probe)
    .color.match(/[\d.]+/g)
    .slice(0, 3)
    .map(Number);
  probe.remove();
  return found;
}

// What a server answers, as views -------------------------------------------------------------------------------------

const without = (pieces) => pieces.filter((piece) => piece !== "");

function viewOfAnswer(model, answer, texts) {
  if (answer.target_pieces) {
    const keys = withUnknown(without(answer.source_pieces), texts[0]),
      queries = without(answer.target_pieces);
    const layers = answer.weights.map((weights, index) => ({
      name: `${index + 1} of ${answer.weights.length}`,
      keys,
      queries,
      weights: cut(weights, queries.length, keys.length),
    }));
    return { model, score: answer.scores, answer: answer.translations, layers, note: noteOf(answer, keys.length) };
  }
  const layers = [];
  for (const [prefix, title] of answer.second_pieces
    ? [
        ["", "First text"],
        ["second_", "Second text"],
      ]
    : [["", undefined]]) {
    const isOne = texts.length === 1 || answer.second_pieces;
    const read = isOne ? texts[Number(prefix !== "")] : texts.join(" ");
    const keys = withUnknown(without(answer[`${prefix}pieces`]), read);
    const suffix = title ? `, ${title.toLowerCase()}` : "";
    (answer[`${prefix}weights`] ?? []).forEach((weights, index, all) => {
      layers.push({
        name: `${index + 1} of ${all.length}${suffix}`,
        title,
        keys,
        queries: keys,
        weights: cut(weights, keys.length, keys.length),
      });
    });
    const pooling = answer[`${prefix}pooling`];
    if (pooling)
      layers.push({ name: `pooling${suffix}`, title, keys, weights: pooling.map((row) => row.slice(0, keys.length)) });
  }
  const classes = answer.classes?.slice(0, 6).map((name, index) => [name, answer.scores[index]]);
  const values = answer.values === undefined ? undefined : number(answer.values);
  const score = answer.texts && answer.scores;
  return { model, classes, score, answer: answer.texts ?? values, layers, note: noteOf(answer, layers[0]?.keys.length) };
}

// A sentence if the model did not read all of the text.
function noteOf(answer, count) {
  if (!answer.is_cut) return undefined;
  const read = count === undefined || answer.second_pieces ? "" : ` at ${count} tokens`;
  return `The ${answer.answers ? "question" : "text"} was cut${read}: it is longer than this model reads, and the answer knows nothing of the rest.`;
}

const cut = (weights, queries, keys) => weights.map((rows) => rows.slice(0, queries).map((row) => row.slice(0, keys)));

async function fetchJson(url, options) {
  let answer;
  try {
    answer = await fetch(url, { ...options, credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(`The server does not answer, or does not let this page ask: ${url}`);
  }
  let found;
  try {
    found = await answer.json();
  } catch {
    throw new Error(`The server answered ${answer.status}, without JSON: ${url}`);
  }
  if (!answer.ok) throw new Error(found.error ?? `The server answered ${answer.status}.`);
  return found;
}

function addressOf(model) {
  if (/^https?:\/\//.test(model)) return model.replace(/\/+$/, "");
  return `v1/models/${model.split("/").map(encodeURIComponent).join("/")}`;
}

const listedModels = async () => (await fetchJson("models.json")).models;

async function definitionsOf(model, signal) {
  return (await fetchJson(`${addressOf(model)}/metadata`, { signal })).metadata.signature_def.signature_def;
}

// The inputs that the two fields stand for, and what these are called; undefined if a model takes no text.
function fieldsOf({ serving_default: signature }) {
  const names = { text: "Text", second_text: "Second text" };
  const asked = { question: "Question", context: "Text" };
  const written = { prompts: "Beginning of a text" };
  return [names, asked, written].map(Object.entries).find(([[first]]) => signature?.inputs[first])?.filter(([input]) => signature.inputs[input]);
}

// Entities or answers with their scores; undefined for other models. A batch pads them with empty ones.
function partsOf({ entities, kinds, answers, scores, has_answer: hasAnswer = true }) {
  const texts = answers ?? entities?.map((text, index) => kinds[index] && `${kinds[index]}: ${text}`);
  return texts?.map((text, index) => [text, scores[index]]).filter(([text]) => text && hasAnswer);
}

async function askModel(model, texts, signal) {
  const isAddress = /^https?:/.test(model);
  const known = isAddress ? [] : (await listedModels()).filter((listed) => listed.takes_text).map(({ name }) => name);
  const definitions = await definitionsOf(model, signal).catch((error) => {
    if (error.name === "AbortError" || isAddress || known.includes(model)) throw error;
    if (known.includes(model.split("/")[0])) throw new Error(`There is no version \u201c${model}\u201d here.`);
    throw new Error(`There is no model \u201c${model}\u201d here. There are: ${known.join(", ") || "none that takes text"}.`);
  });
  const name = definitions.attention ? "attention" : "serving_default";
  const fields = fieldsOf(definitions);
  if (!fields) throw new Error(`${model} takes no text.`);
  const instance = Object.fromEntries(fields.map(([input], index) => [input, texts[index]]));
  const asked = Object.values(instance);
  const body = JSON.stringify({ signature_name: name, instances: [instance] });
  const [answer] = (await fetchJson(`${addressOf(model)}:predict`, { method: "POST", body, signal })).predictions;
  if (name === "attention") return viewOfAnswer(model, answer, asked);
  const found = typeof answer === "object" ? answer : { values: answer };
  const unknown = "This model was exported without the signature `attention`: its maps are not known.";
  const parts = partsOf(found);
  const score = parts?.length === 0 ? found.no_answer_score : undefined;
  const surer = score === undefined ? "" : `The score of no answer is ${number(score)}: the higher, the surer.`;
  const note = [noteOf(found), parts ? surer : unknown].filter(Boolean).join(" ");
  const classes = parts ?? found.classes?.map((label, index) => [label, found.scores[index]]);
  const nothing = parts?.length === 0 ? "Nothing was found." : undefined;
  return {
    model,
    answer: found.translations ?? found.texts?.join("\n") ?? (classes ? nothing : String(found.values)),
    score: classes ? undefined : found.scores,
    classes,
    note,
    layers: [],
  };
}

// The page ------------------------------------------------------------------------------------------------------------

let views = [];

function show(found) {
  views = found.map((view) => new View(view));
  $("views").replaceChildren(...views.map((view) => view.element));
}

function showError(message) {
  $("error").textContent = message;
  $("error").hidden = !message;
  if (message) $("error").scrollIntoView({ block: "nearest" });
}

function startTheme() {
  const themes = ["system", "light", "dark"];
  let theme = "system";
  try {
    theme = localStorage.getItem("theme") ?? theme;
  } catch {
    /* a page in a file may have no storage */
  }
  const apply = () => {
    document.documentElement.dataset.theme = theme;
    $("theme").textContent = `Theme: ${theme}`;
    views.forEach((view) => {
      view.paint();
      view.update();
    });
  };
  $("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try {
      localStorage.setItem("theme", theme);
    } catch {
      /* as above */
    }
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}

function startExamples(data) {
  document.title = data.title;
  document.querySelector("h1").textContent = data.title;
  const selects = [$("example-0"), $("example-1")];
  const names = data.examples.map((example, index) => example.name ?? `${index + 1}`);
  selects[0].append(...names.map((name) => make("option", { text: name })));
  selects[1].append(make("option", { text: "none" }), ...names.map((name) => make("option", { text: name })));
  const draw = () =>
    show(
      [selects[0].selectedIndex, selects[1].selectedIndex - 1]
        .filter((index) => index >= 0)
        .map((index) => data.examples[index]),
    );
  selects.forEach((select) => select.addEventListener("change", draw));
  for (const example of data.examples) {
    for (const layer of example.layers) if (layer.self) layer.queries = layer.keys;
  }
  $("choose").hidden = data.examples.length < 2;
  draw();
}

// Texts to try, each of which a click asks of the first model.
function offerExamples(examples) {
  const buttons = examples.slice(0, 3).map((example) => {
    const text = Object.values(example).join(" | ");
    const onclick = () => {
      $("text").value = example.text ?? example.question ?? example.prompts;
      $("second-text").value = example.second_text ?? example.context ?? "";
      $("ask").requestSubmit();
    };
    return make("button", { type: "button", dir: "auto", text, onclick });
  });
  const listed = buttons.flatMap((button) => [button, ", "]).slice(0, -1);
  $("examples").replaceChildren(...(buttons.length ? ["Or try: ", ...listed] : []));
}

async function startServer() {
  $("ask").hidden = false;
  const fields = [$("model-0"), $("model-1")];
  let running = null;
  let listed = [];
  const models = () => fields.map((field) => field.value.trim()).filter(Boolean);
  const adapt = async () => {
    const [chosen] = fields[0].value.trim().split("/");
    offerExamples(listed.find(({ name }) => name === chosen)?.examples ?? []);
    try {
      const definitions = await Promise.all(models().map((model) => definitionsOf(model)));
      const fields = definitions.map(fieldsOf).filter(Boolean);
      const most = fields.find((found) => found.length > 1) ?? fields[0] ?? [];
      $("second").hidden = most.length < 2;
      most.forEach(([, name], index) => (document.querySelectorAll("#ask .wide label")[index].textContent = name));
    } catch {
      /* the answer to a request will say so */
    }
  };
  fields.forEach((field) => field.addEventListener("change", adapt));
  $("ask").addEventListener("submit", async (event) => {
    event.preventDefault();
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    showError("");
    $("go").disabled = true;
    $("views").setAttribute("aria-busy", "true");
    try {
      const texts = [$("text").value, $("second-text").value];
      const found = await Promise.all(models().map((model) => askModel(model, texts, signal)));
      $("start").hidden = true;
      show(found);
    } catch (error) {
      if (error.name !== "AbortError") {
        show([]); // what is there is no answer to this text
        showError(error.message);
      }
    } finally {
      $("go").disabled = false;
      $("views").removeAttribute("aria-busy");
    }
  });
  for (const field of [$("text"), $("second-text")]) {
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      $("ask").requestSubmit();
    });
  }
  $("text").focus(); // now, as what comes may take long, and a user may be in another field by then
  try {
    listed = (await listedModels()).filter((model) => model.takes_text);
    $("models").append(...listed.map(({ name }) => make("option", { value: name })));
    if (!listed.length) throw new Error("None of the models on this server takes text, which this page needs.");
    fields[0].value = listed[0].name;
    $("start").hidden = false;
    await adapt();
  } catch (error) {
    showError(error.message);
  }
}

startTheme();
const data = $("data");
if (data) startExamples(JSON.parse(data.textContent));
else startServer();
