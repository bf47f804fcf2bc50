"use strict";
const SVG = "http://www.w3.org/2000/svg";
const ARCS = 4; // of a token, on average: all of them would hide each other
const drawn = (name, attributes, parent, text) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
};
const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

function showAttention(place) {
  const { tokens, names, values, head: first } = JSON.parse(place.dataset.attention);
  const size = tokens.length, pixels = new Map();
  const layer = document.getElementById("layer"), head = document.getElementById("head"), from = document.getElementById("from");
  tokens.forEach((token, position) => from.append(new Option(`${position}: ${token}`, position)));
  place.querySelector(".controls").hidden = false;

  const pictureOf = (number) => {
    if (!pixels.has(number)) {
      const value = getComputedStyle(document.querySelector(`.layer-${number}`)).getPropertyValue("--picture");
      const picture = new Image();
      picture.src = value.slice(value.indexOf("data:"), value.lastIndexOf(")")).replace(/["']/g, "");
      pixels.set(number, picture.decode().then(() => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [picture.width, picture.height];
        const context = canvas.getContext("2d");
        context.drawImage(picture, 0, 0);
        return canvas;
      }));
    }
    return pixels.get(number);
  };

  async function show() {
    const [l, h] = [Number(layer.value), Number(head.value)], canvas = await pictureOf(l);
    if (l !== Number(layer.value) || h !== Number(head.value)) return;
    const data = canvas.getContext("2d").getImageData(0, h * size, size, size).data;
    const attention = (row, column) => (data[4 * (row * size + column) + 3] / 255) ** 2;
    document.getElementById("head-name").textContent = `Layer ${l + 1}, head ${h + 1}: ${names[l][h]} ${values[l][h]}`;
    for (const thumb of document.querySelectorAll(".thumb")) {
      thumb.setAttribute("aria-pressed", Number(thumb.dataset.layer) === l && Number(thumb.dataset.head) === h);
    }
    arcs(attention, from.value === "" ? null : Number(from.value));
    matrix(attention, canvas, h, from.value === "" ? null : Number(from.value));
  }

  function arcs(attention, only) {
    const step = 18, middle = 210, gap = 56, target = document.getElementById("arcs");
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${2 * middle} ${step * size + 8}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", "Attention between tokens as arcs; the matrix has the values");
    const weights = tokens.flatMap((_, row) => tokens.map((_, column) => attention(row, column))).sort((a, b) => b - a);
    const least = Math.max(weights[Math.min(ARCS * size, weights.length - 1)], 1e-9);
    tokens.forEach((token, row) => {
      const y = step * row + 16;
      const text = drawn("text", { x: middle, y, "text-anchor": "middle", opacity: only === null || only === row ? 1 : 0.7 }, svg, short(token, 14));
      if (only === row) text.setAttribute("font-weight", "700");
      tokens.forEach((_, column) => {
        const weight = attention(row, column);
        if (only === null ? weight < least : only !== row || weight === 0) return;
        const y2 = step * column + 16 - 4, y1 = y - 4, side = column < row ? 1 : -1;
        const style = { class: "arc", "stroke-width": 0.6 + 3.4 * weight, "stroke-opacity": 0.15 + 0.85 * weight };
        if (column === row) {
          drawn("circle", { ...style, cx: middle + gap, cy: y1, r: 2 }, svg);
          return;
        }
        const x = middle + side * gap, reach = Math.min(150, 12 + 5 * Math.abs(row - column));
        drawn("path", { ...style, d: `M${x} ${y1} C${x + side * reach} ${y1} ${x + side * reach} ${y2} ${x} ${y2}` }, svg);
      });
    });
    target.replaceChildren(svg);
  }

  function matrix(attention, canvas, h, only) {
    const named = size <= 40, margin = named ? 92 : 10, cell = named ? 18 : 4, side = size * cell, target = document.getElementById("matrix");
    const part = document.createElement("canvas");
    part.width = part.height = size;
    part.getContext("2d").drawImage(canvas, 0, -h * size);
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${margin + side + 4} ${margin + side + 4}`);
    svg.setAttribute("role", "img");
    const best = tokens.map((token, row) => {
      const weights = tokens.map((_, column) => attention(row, column)), column = weights.indexOf(Math.max(...weights));
      return `${token} → ${tokens[column]} ${weights[column].toFixed(2)}`;
    });
    svg.setAttribute("aria-label", "Attention as a matrix. Most of each token: " + best.join("; "));
    drawn("image", { x: margin, y: margin, width: side, height: side, href: part.toDataURL(), class: "pixels", preserveAspectRatio: "none" }, svg);
    drawn("rect", { x: margin, y: margin, width: side, height: side, class: "frame" }, svg);
    if (only !== null) drawn("rect", { x: margin, y: margin + only * cell, width: side, height: cell, class: "arc" }, svg);
    if (named) tokens.forEach((token, index) => {
      const at = margin + (index + 0.5) * cell + 4;
      drawn("text", { x: margin - 6, y: at, "text-anchor": "end" }, svg, short(token, 12));
      drawn("text", { x: 0, y: 0, transform: `translate(${at} ${margin - 6}) rotate(-90)` }, svg, short(token, 12));
    });
    const title = drawn("title", {}, svg, "");
    svg.addEventListener("pointermove", (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const [row, column] = [Math.floor((point.y - margin) / cell), Math.floor((point.x - margin) / cell)];
      const inside = row >= 0 && column >= 0 && row < size && column < size;
      title.textContent = inside ? `${tokens[row]} → ${tokens[column]}: ${attention(row, column).toFixed(3)}` : "";
    });
    target.replaceChildren(svg);
  }

  for (const element of [layer, head, from]) element.addEventListener("change", show);
  for (const thumb of document.querySelectorAll(".thumb")) {
    thumb.addEventListener("click", () => {
      [layer.value, head.value] = [thumb.dataset.layer, thumb.dataset.head];
      show();
    });
  }
  [layer.value, head.value] = first.map(String);
  show();
}

const place = document.getElementById("one-head");
if (place) showAttention(place);

const slider = document.getElementById("slider");
if (slider) {
  const input = slider.querySelector("input"), layers = document.getElementById("layers");
  const show = () => {
    for (const layer of layers.children) layer.hidden = layer.dataset.layer !== input.value;
    slider.querySelector("output").textContent = input.value;
  };
  slider.hidden = false;
  layers.classList.add("one");
  input.addEventListener("input", show);
  show();
}
