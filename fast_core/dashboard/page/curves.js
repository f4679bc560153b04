// Small curves on a canvas, cheap enough to be drawn with every message.

import { colour, fitted } from "./dom.js";
import { number } from "./words.js";

export const LONGEST = 160; // moments that are kept and drawn
export const DASHES = [[], [5, 3], [1.5, 2.5], [8, 3, 2, 3]]; // lines differ by more than colour
const LEFT = 44;
const EDGE = 4;

/** Lines that end at the right now, broken at the moments in `begins`; `range` null: as they go. */
export function curves(canvas, lines, begins, range) {
  const context = fitted(canvas);
  if (!context) return;
  const [low, high] = range ?? rangeOf(lines);
  const [width, height] = [canvas.clientWidth - LEFT - EDGE, canvas.clientHeight - 2 * EDGE];
  const length = Math.max(...lines.map((line) => line.values.length));
  const x = (place) => LEFT + (width * (LONGEST - length + place)) / (LONGEST - 1);
  const y = (value) => EDGE + height * (1 - (value - low) / (high - low));
  scale(context, width, y, low, high);
  dividers(context, [...begins].map(x), height);
  for (const line of lines) {
    pen(context, line, 1.5);
    let down = false;
    line.values.forEach((value, at) => {
      const known = Number.isFinite(value);
      if (known && down && !begins.has(at)) context.lineTo(x(at), y(value));
      else if (known) context.moveTo(x(at), y(value));
      down = known;
    });
    context.stroke();
  }
}

/** A piece of a line, for a legend. */
export function stroke(canvas, line) {
  const context = fitted(canvas);
  if (!context) return;
  pen(context, line, 2);
  context.moveTo(0, canvas.clientHeight / 2);
  context.lineTo(canvas.clientWidth, canvas.clientHeight / 2);
  context.stroke();
}

function pen(context, line, width) {
  context.strokeStyle = line.paint;
  context.setLineDash(line.dash);
  context.lineWidth = width;
  context.beginPath();
}

function rangeOf(lines) {
  const values = lines.flatMap((line) => line.values.filter(Number.isFinite));
  if (!values.length) return [0, 1];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  return [low - room, high + room];
}

/** A thin line where an episode began. */
function dividers(context, places, height) {
  pen(context, { paint: colour("faint"), dash: [2, 3] }, 1);
  for (const x of places) {
    context.moveTo(x, EDGE);
    context.lineTo(x, EDGE + height);
  }
  context.stroke();
}

/** The two ends of the vertical axis, and a line at each. */
function scale(context, width, y, low, high) {
  context.font = `10px ${getComputedStyle(document.body).fontFamily}`;
  context.fillStyle = colour("muted");
  context.textAlign = "right";
  for (const [value, baseline] of [[high, "top"], [low, "bottom"]]) {
    context.textBaseline = baseline;
    context.fillText(number(value), LEFT - 6, y(value));
    pen(context, { paint: colour("line"), dash: [] }, 1);
    context.moveTo(LEFT, Math.round(y(value)) + 0.5);
    context.lineTo(LEFT + width, Math.round(y(value)) + 0.5);
    context.stroke();
  }
}
