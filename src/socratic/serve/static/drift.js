// The drift page: asks /v1/drift every few seconds and shows the reply, as text and nodes alone.

import { ask, setToken } from "./api.js";
import { drawn, element, percent } from "./elements.js";

const SECONDS = 3;
const byId = (id) => document.getElementById(id);
const whole = (number) => number.toLocaleString("en");
const when = (time) => time.replace("T", " ").replace("+00:00", " UTC");

/** Replace the rows of a table by cells of text; the first of each row is its heading. */
function fill(table, rows) {
  const cell = (text, place) => (place ? element("td", {}, text) : element("th", { scope: "row" }, text));
  table.tBodies[0].replaceChildren(...rows.map((cells) => element("tr", {}, ...cells.map(cell))));
}

/** Replace a text if it is another one, so that nothing is read aloud twice. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Bars of counts, each with a line at what is expected. */
function draw(picture, counts, expected) {
  const [width, height] = [400, 160];
  const most = Math.max(1, ...counts, ...expected);
  const step = width / counts.length;
  picture.replaceChildren(
    ...counts.flatMap((count, place) => {
      const tall = (height * count) / most;
      const line = height - (height * expected[place]) / most;
      const x = step * place;
      return [
        drawn("rect", { class: "rows", x: x + 1, y: height - tall, width: step - 2, height: tall }),
        drawn("line", { class: "expected", x1: x, x2: x + step, y1: line, y2: line }),
      ];
    }),
  );
}

function verdict(drift) {
  if (drift.alarm) return `Alarm: rows have changed since about ${when(drift.since)} (row ${whole(drift.since_row + 1)}).`;
  if (!drift.n_compared) return "No rows have been compared yet.";
  return "No alarm: nothing says that rows are unlike those that the model was calibrated on.";
}

function show(drift) {
  byId("known").hidden = false;
  byId("verdict").classList.toggle("alarm", drift.alarm);
  say(byId("verdict"), verdict(drift));
  fill(byId("counts"), [
    ["watched since", when(drift.started)],
    ["answered", whole(drift.n_rows)],
    ["compared", whole(drift.n_compared)],
    ["waiting", whole(drift.n_waiting)],
    ["passed over for lack of time", whole(drift.n_passed_over)],
    ["not watched: another doubt, or a trial", whole(drift.n_skipped)],
    ["refused, of those compared", percent(drift.refused_share)],
  ]);
  say(
    byId("window"),
    `Of the last ${whole(drift.n_recent)} rows, ${percent(drift.recently_refused)} were refused; ` +
      `${percent(drift.expected_refused)} or less are to be expected of familiar ones.`,
  );
  draw(byId("picture"), drift.p_values, drift.expected_p_values);
  const bins = drift.p_values.length;
  fill(
    byId("p-values"),
    drift.p_values.map((count, place) => [
      `${(place / bins).toFixed(2)} to ${((place + 1) / bins).toFixed(2)}`,
      whole(count),
      drift.expected_p_values[place].toFixed(1),
    ]),
  );
  fill(byId("evidence"), [
    ["strongest so far, as a logarithm", drift.log_wealth.toFixed(2)],
    ["an alarm from", drift.limit.toFixed(2)],
    ["false alarms, ever, at most", percent(drift.rate)],
    ["alarm", drift.alarm ? `${when(drift.alarm_time)}, by row ${whole(drift.alarm_row + 1)}` : "none"],
  ]);
  byId("columns").hidden = !drift.columns_watched;
  fill(
    byId("columns"),
    drift.columns.map((column) => [
      column.name,
      `${when(column.since)}, row ${whole(column.since_row + 1)}`,
      column.more_surprising ? "more surprising" : "less surprising, or missing",
    ]),
  );
}

async function refresh() {
  const model = byId("model").value;
  try {
    const drift = await ask(`/v1/drift?model=${encodeURIComponent(model)}`);
    if (model === byId("model").value) show(drift);
  } catch (error) {
    byId("known").hidden = true;
    byId("verdict").classList.remove("alarm");
    say(byId("verdict"), error.message);
  }
}

/** Ask now and every few seconds from now on, while somebody looks. */
async function watch() {
  if (!document.hidden) await refresh();
  setTimeout(watch, 1000 * SECONDS);
}

async function start() {
  try {
    const { models } = await ask("/v1/models");
    byId("model").replaceChildren(...models.map((name) => element("option", { value: name }, name)));
  } catch (error) {
    byId("token").hidden = error.status !== 401;
    say(byId("verdict"), error.message);
    return;
  }
  byId("token").hidden = true;
  await watch();
}

byId("model").onchange = refresh;
byId("token").onsubmit = (event) => {
  event.preventDefault();
  setToken(byId("secret").value);
  start();
};

start();
