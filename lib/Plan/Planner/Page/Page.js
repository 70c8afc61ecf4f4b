// Draws the plan, which is what `intarsia-plan --json` writes. Names are anything that a user writes: they come into the
// page as text nodes and attributes, never as markup.
"use strict";
const plan = JSON.parse(document.getElementById("plan").textContent);
const main = document.querySelector("main");

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {}))
    element.setAttribute(name, value);
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
  return element;
}

//--- Numbers ----------------------------------------------------------------------------------------------------------

// Whole, or three or more significant digits: "20", "0.0427", "9.57", "12,345".
function number(value) {
  if (value === null)
    return "–";
  const size = Math.abs(value);
  if (size > 0 && size < 1e-4)
    return value.toExponential(2);
  const digits = Number.isInteger(value) ? 0 : Math.min(Math.max(2 - Math.floor(Math.log10(size) + 1e-12), 0), 6);
  return value.toLocaleString("en-US", {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

function duration(milliseconds) {
  if (milliseconds === null)
    return "–";
  const size = Math.abs(milliseconds);
  return size < 0.001 ? "0 ms"
    : size < 1000 ? number(milliseconds) + " ms"
    : size < 180e3 ? number(milliseconds / 1000) + " s" : number(milliseconds / 60e3) + " min";
}

// The unit that duration() gives times of this length in, as milliseconds: axes have round numbers of it.
const unitOf = milliseconds => milliseconds < 1000 ? 1 : milliseconds < 180e3 ? 1000 : 60e3;
const percent = share => share === null ? "–" : share > 0 && share < 0.001 ? "< 0.1 %" : (100 * share).toFixed(1) + " %";
const sum = values => values.reduce((all, value) => all + value, 0);
const sentence = text => text[0].toUpperCase() + text.slice(1) + ".";

// Dollars are given for as many requests as make the amount readable.
function batchOf(dollarsPerRequest) {
  const [requests, name] = dollarsPerRequest <= 0 || dollarsPerRequest >= 0.01 ? [1, "a request"]
    : dollarsPerRequest >= 1e-5 ? [1e3, "1,000 requests"] : [1e6, "a million requests"];
  return {requests, name, dollars: perRequest => "$" + number(perRequest * requests)};
}

//--- Parts of the page ------------------------------------------------------------------------------------------------

// Adds a section with a heading, and its link to the navigation.
function section(id, title, ...content) {
  main.append(make("section", {id}, make("h2", {}, title), content));
  document.querySelector("nav")?.append(make("a", {href: "#" + id}, title));
}
const note = text => make("p", {class: "note"}, text);
const list = (title, entries) =>
  entries.length ? [make("h3", {}, title), make("ul", {}, entries.map(entry => make("li", {}, entry)))] : [];

// Makes a table. '#' before a title: a column of figures; '+': one of long texts.
function table(titles, rows) {
  const kinds = titles.map(title => ({"#": {class: "n"}, "+": {class: "long"}})[title[0]] ?? {});
  const line = (tag, cells) => make("tr", {}, cells.map((cell, column) => make(tag, kinds[column], cell)));
  return make("div", {class: "wide"}, make("table", {},
    make("thead", {}, line("th", titles.map(title => title.replace(/^[#+]/, "")))),
    make("tbody", {}, rows.map(row => line("td", row)))));
}

// Makes a bar of a share, with a mark at another one.
function bar(share, colour, mark) {
  const at = value => (100 * Math.min(Math.max(value, 0), 1)).toFixed(2) + "%";
  return make("div", {class: "bar " + colour}, make("span", {style: "width: " + at(share)}),
    mark === undefined ? null : make("i", {style: "left: " + at(mark)}));
}
const limitBar = share => bar(share, share > 1 + 1e-6 ? "tight" : "pool0");

const poolIndex = piece => plan.pools.findIndex(pool => pool.name === piece.pool);
const colourOf = index => index < 0 ? "outside" : "pool" + index % 8;
const placeOf = piece => piece.outside ? piece.service : "@" + piece.pool;
const dot = (colour, name) => make("span", {class: "pool"}, make("span", {class: "dot " + colour}), name);
const poolCell = piece => dot(colourOf(poolIndex(piece)), placeOf(piece));
const key = (kind, text) => make("span", {}, make("span", {class: "key " + kind}), text);
const perAgent = draw => plan.agents.map(agent =>
  [plan.agents.length > 1 ? make("h3", {}, "@" + agent.name) : null, draw(agent)]);

//--- What is planned --------------------------------------------------------------------------------------------------

function statusOf() {
  const [colour, word, text] = {
    optimal: ["good", "Optimal:", plan.latency_room > 0 && !plan.hardened
      ? `no plan of these candidates is faster by more than ${percent(plan.latency_room)}, and of those none is cheaper.`
      : `no plan of these candidates is better in ${plan.objective}` +
        (plan.hardened ? " for the stricter bounds or slower times it was made for." : ".")],
    time_limit: ["bad", "Time limit:", "the best plan that was found; another may be better by up to " +
      `${plan.gap === null ? "any share" : percent(plan.gap)} in ${plan.objective}.`],
    infeasible: ["bad", "Infeasible:", "nothing holds all that is asked."],
    no_plan_in_time: ["bad", "Out of time:", "no plan was found; give more with --time-limit."]
  }[plan.status];
  return make("p", {class: "status"}, make("span", {class: colour}, word), " " + text);
}

function summary() {
  const totals = plan.totals, batch = batchOf(totals.dollars_per_request), simulates = "simulation" in plan;
  const devices = sum(plan.pools.map(pool => pool.used));
  const tile = (value, name) => make("div", {class: "tile"}, make("b", {}, value), make("span", {}, name));
  const rows = plan.agents.flatMap(agent => {
    const level = "p" + number(100 * agent.percentile), simulated = agent.simulated, bounds = agent.bounds;
    // The first token was simulated at fixed percentiles.
    const first = simulated?.[`first_token_${level}_ms`];
    const promise = (name, what, planned, allowed, also) =>
      [name, what, duration(planned), allowed === null ? "" : duration(allowed),
        allowed === null ? "" : limitBar(planned / allowed), ...(simulates ? [also ? duration(also) : ""] : [])];
    return [
      promise("@" + agent.name + (agent.requests_per_second > 0 ? `, ${number(agent.requests_per_second)} requests/s` : ""),
        level + ", end to end", agent.end_to_end_ms, bounds.end_to_end_ms, simulated?.level_ms),
      promise("", "mean, end to end", agent.mean_ms, null, simulated?.mean_ms),
      promise("", level + ", first token", agent.first_token_ms, bounds.first_token_ms, first),
      ...(agent.next_token_ms > 0 ? [promise("", "next token", agent.next_token_ms, bounds.next_token_ms)] : [])];
  });
  section("summary", "Summary",
    make("div", {class: "tiles"},
      tile(batch.dollars(totals.dollars_per_request), batch.requests > 1 ? "for " + batch.name : batch.name),
      tile("$" + number(totals.dollars_per_hour), "an hour"),
      tile(number(totals.watts) + " W", `at these rates, ${number(totals.peak_watts)} W if all are busy`),
      tile(number(totals.joules_per_request) + " J", "a request"),
      totals.grams_per_hour > 0 ? tile(number(totals.grams_per_hour) + " g", "CO₂ an hour") : null,
      tile(number(devices), devices === 1 ? "device" : "devices")),
    table(["agent", "promise", "#planned", "#allowed", "", ...(simulates ? ["#simulated"] : [])], rows),
    plan.agents.flatMap(agent => agent.jumps).map(text => note(sentence(text))),
    plan.headroom.text ? note(sentence(plan.headroom.text)) : null,
    plan.not_compiled.length ? [note("intarsia-compile --plan refuses this plan; intarsia engines starts other servers " +
      "with it."), make("ul", {class: "note"}, plan.not_compiled.map(text => make("li", {}, text)))] : null);
}

function placements() {
  const split = piece => ["tensor", "pipeline", "expert", "data"].filter(by => piece[by] > 1)
    .map(by => `${by} ${piece[by]}`).concat(piece.parts > 1 ? `share 1/${piece.parts}` : [],
      piece.aggregated ? "aggregated" : []).join(", ");
  section("placements", "Placements", table(
    ["task", "pool", "precision", "split", "#batch", "#replicas", "#devices", "#in service", "#in the queue", "#$/hour"],
    plan.pieces.map(piece => [piece.name, poolCell(piece), piece.precision ?? "", split(piece),
      ...["batch", "replicas", "devices"].map(count => piece.outside ? "" : piece[count].toLocaleString("en-US")),
      duration(piece.milliseconds), piece.wait_ms >= 0.05 ? duration(piece.wait_ms) : "",
      number(piece.dollars_per_hour)])));
}

function changes() {
  const replan = plan.replan;
  section("changes", "Changes",
    make("p", {}, replan.text + "." + (replan.changes.length || !replan.stay
      ? ` The plan of before: ${replan.stay_text}.` : "")),
    replan.changes.length ? table(["task", "before", "now", "#replicas before", "#now"], replan.changes.map(of =>
      [of.piece, of.before, of.moves ? of.now : "", number(of.replicas_before), number(of.replicas_now)])) : null,
    list("Not placed before", replan.unknown));
}

//--- The graph --------------------------------------------------------------------------------------------------------

function taskOf(agent, name) {
  for (const piece of plan.pieces)
    for (const task of piece.tasks)
      if (task.graph === agent.name && task.task === name)
        return {piece, task};
}

function card(agent, name) {
  const {piece, task} = taskOf(agent, name);
  const wait = piece.wait_ms >= 0.05 ? ` + ${duration(piece.wait_ms)} wait` : "";
  const place = piece.outside ? (piece.service === "outside" ? "outside" : "outside · " + piece.service) : piece.choice;
  const lines = [place,
    piece.outside ? null : piece.devices === 0 ? "in the decode's replicas"
      : `${number(piece.replicas)} ${piece.replicas === 1 ? "replica" : "replicas"}`,
    duration(task.milliseconds) + wait,
    Math.abs(task.executions - 1) > 1e-6 ? `${number(task.executions)} times a request` : null];
  return make("div", {class: "card " + colourOf(poolIndex(piece)), title: `${name}, ${task.location}\n${piece.choice}`},
    make("b", {}, name), lines.filter(line => line !== null).map(line => make("span", {}, line)));
}

// Makes the elements of a region: tasks are cards, loops, maps and branches are boxes around what is in them.
function regionOf(agent, region) {
  const children = () => region.children.map(child => regionOf(agent, child));
  const box = (label, kind, ...content) =>
    make("div", {class: "part " + kind}, make("div", {class: "label"}, label), content);
  const named = region.name ? " " + region.name : "";
  switch (region.kind) {
  case "task":
    return card(agent, region.task);
  case "dag": {
    const dag = make("div", {class: "dag"}, children());
    dag.arcs = region.arcs;
    return region.children.length ? dag : make("div", {class: "empty"}, "nothing");
  }
  case "branch":
    return box("one of" + (named || " these"), "", make("div", {class: "cases"}, children().map((child, index) => {
      const name = region.children[index].name, share = `${(100 * region.probabilities[index]).toFixed(0)} %`;
      return box(name ? `${name}, ${share}` : share, "", child);
    })));
  case "loop":
    return box(`loop, ${number(region.mean)} turns of at most ${number(region.most)}` +
      (region.name ? `, until ${region.name}` : ""), "loop", children());
  default:
    return box(`for each${named}, ${number(region.mean)} at once` +
      (region.concurrency ? `, at most ${number(region.concurrency)}` : ""), "", children());
  }
}

// Returns the arcs that no others imply.
function reduced(arcs, count) {
  const reach = Array.from({length: count}, () => new Set());
  for (let from = count - 1; from >= 0; --from) // arcs lead to later children
    for (const arc of arcs)
      if (arc.from === from)
        for (const beyond of [arc.to, ...reach[arc.to]])
          reach[from].add(beyond);
  return arcs.filter(arc => !arcs.some(other => other.from === arc.from && reach[other.to].has(arc.to)));
}

// Places the children of a dag, whose sizes are known, and draws the arrows between them.
function place(dag) {
  const children = [...dag.children], graph = new dagre.graphlib.Graph();
  graph.setGraph({nodesep: 22, edgesep: 6, ranksep: 38}).setDefaultEdgeLabel(() => ({}));
  children.forEach((child, index) => graph.setNode(index, {width: child.offsetWidth, height: child.offsetHeight}));
  for (const arc of reduced(dag.arcs, children.length))
    graph.setEdge(arc.from, arc.to, {streams: arc.streams});
  dagre.layout(graph);
  const nodes = children.map((_, index) => graph.node(index));
  children.forEach((child, index) => {
    child.style.left = nodes[index].x - nodes[index].width / 2 + "px";
    child.style.top = nodes[index].y - nodes[index].height / 2 + "px";
  });
  dag.style.width = graph.graph().width + "px";
  dag.style.height = graph.graph().height + "px";
  dag.append(arrowsOf(graph, nodes));
}

// Draws arrows from the bottom of a node to the top of another, straight where they pass other layers of nodes.
function arrowsOf(graph, nodes) {
  const draw = tag => document.createElementNS("http://www.w3.org/2000/svg", tag), svg = draw("svg");
  const layerAt = y => { // its top and bottom; undefined between layers
    const layer = nodes.filter(node => Math.abs(node.y - y) < 0.5);
    return layer.length ? {top: Math.min(...layer.map(node => node.y - node.height / 2)),
      bottom: Math.max(...layer.map(node => node.y + node.height / 2))} : undefined;
  };
  for (const edge of graph.edges()) {
    const from = graph.node(edge.v), to = graph.node(edge.w), path = draw("path");
    let x = from.x, y = layerAt(from.y).bottom, data = `M${x},${from.y + from.height / 2} V${y}`;
    for (const point of [...graph.edge(edge).points.slice(1, -1), to]) {
      const layer = layerAt(point.y);
      if (!layer)
        continue;
      const top = layer.top - 6, middle = (y + top) / 2; // the last bit is straight, for the arrow's head
      data += ` C${x},${middle} ${point.x},${middle} ${point.x},${top}`;
      x = point.x, y = point === to ? to.y - to.height / 2 : layer.bottom;
      data += ` V${y}`;
    }
    path.setAttribute("d", data);
    path.setAttribute("marker-end", "url(#head)");
    if (graph.edge(edge).streams)
      path.setAttribute("class", "streams");
    svg.append(path);
  }
  return svg;
}

function graphs() {
  section("graph", "Graph",
    note("Where each task runs. Times are means over all tasks that share the replicas. An arrow that others imply is left " +
      "out, a dotted one streams."),
    perAgent(agent => make("div", {class: "graph", role: "img",
      "aria-label": `Tasks of ${agent.name} with the pool and choice of each`}, regionOf(agent, agent.graph))),
    make("p", {class: "legend"},
      plan.pools.map((pool, index) => make("span", {}, dot(colourOf(index), "@" + pool.name))),
      plan.pieces.some(piece => piece.outside) ? make("span", {}, dot("outside", "on no device of the fleet")) : null));
  // Inner dags come after the outer ones that contain them.
  [...document.querySelectorAll(".dag")].reverse().forEach(place);
}

// Makes graphs smaller that are wider than the page; on a screen they stay readable, and scroll.
function fitGraphs() {
  const prints = matchMedia("print").matches;
  for (const root of document.querySelectorAll(".graph > .dag")) {
    const width = parseFloat(root.style.width), height = parseFloat(root.style.height);
    const share = (prints ? 680 : root.parentElement.clientWidth - 4) / width;
    const scale = Math.min(Math.max(share, prints ? 0 : 0.5), 1);
    root.style.transform = `scale(${scale})`; // which leaves the size in the layout as it is
    root.style.marginBottom = (scale - 1) * height + "px";
    root.style.marginRight = scale < 1 ? (scale - 1) * width + "px" : "";
  }
}

//--- Charts -----------------------------------------------------------------------------------------------------------

const charts = []; // each with its canvas, and a function of colours that gives its settings
function chart(label, height, settings) {
  const canvas = make("canvas", {role: "img", "aria-label": label});
  charts.push({canvas, settings});
  return make("div", {class: "chart", style: `height: ${height}px`}, canvas);
}

function drawCharts() {
  const style = getComputedStyle(document.documentElement);
  const colour = name => style.getPropertyValue("--" + name).trim();
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.color = colour("muted");
  for (const each of charts) {
    each.drawn?.destroy();
    const {type, data, options} = each.settings(colour);
    each.drawn = new Chart(each.canvas, {type, data, options: {
      animation: false, maintainAspectRatio: false, responsive: true, ...options,
      plugins: {legend: {display: false}, tooltip: options.tooltip}}});
  }
}

const shortened = (name, most) => name.length > most ? name.slice(0, most - 1) + "…" : name;

// One nominal request: a row for each task, a bar for each execution.
function requestChart(agent) {
  const request = agent.request, rows = new Map(request.executions.map(of => [of.task, []]));
  for (const execution of request.executions)
    rows.get(execution.task).push(execution);
  const tasks = [...rows.keys()], unit = unitOf(request.end_ms);
  const timesOf = task => {
    const all = rows.get(task), mean = sum(all.map(of => of.end_ms - of.served_ms)) / all.length;
    return (all.length > 1 ? `${all.length} × ` : "") + duration(mean) +
      (all[0].copies > 1 ? `, ${number(all[0].copies)} at once` : "");
  };
  return chart(`One nominal request of ${agent.name} over time`, 44 + 36 * tasks.length, colour => {
    const poolColours = request.executions.map(of => colour(colourOf(poolIndex(taskOf(agent, of.task).piece))));
    const bars = (from, to, thickness, rest) => ({grouped: false, barThickness: thickness, ...rest,
      data: request.executions.map(of => ({x: [of[from] / unit, of[to] / unit], y: of.task}))});
    const critical = request.executions.map(of => of.critical ? colour("ink") : "transparent");
    return {type: "bar", data: {labels: tasks, datasets: [ // the first is on top
      {grouped: false, barThickness: 14, minBarLength: 1.5, backgroundColor: colour("surface"), data: request.executions
        .map(of => ({y: of.task,
          x: of.first_ms > of.served_ms && of.first_ms < of.end_ms ? [of.first_ms / unit, of.first_ms / unit] : null}))},
      bars("served_ms", "end_ms", 14, {minBarLength: 1.5, backgroundColor: poolColours}),
      bars("arrived_ms", "served_ms", 14, {backgroundColor: poolColours.map(of => of + "4d")}),
      bars("sent_ms", "arrived_ms", 2, {backgroundColor: poolColours}),
      bars("sent_ms", "end_ms", 24, {minBarLength: 1.5, backgroundColor: "transparent", borderColor: critical,
        borderWidth: {bottom: 3}, borderSkipped: false})]},
    options: {indexAxis: "y",
      scales: {
        x: {position: "top", min: 0, max: request.end_ms / unit || 1, grid: {color: colour("grid")},
          ticks: {callback: value => duration(value * unit), maxRotation: 0, autoSkipPadding: 24}},
        y: {grid: {color: colour("grid")}, ticks: {autoSkip: false, callback(_, index) {
          return [shortened(tasks[index], this.chart.width < 600 ? 18 : 34), timesOf(tasks[index])];
        }}}},
      tooltip: {filter: item => item.datasetIndex === 1, displayColors: false, callbacks: {
        title: ([item]) => {
          const of = request.executions[item.dataIndex];
          return of.task + (of.turn > 0 ? `, turn ${of.turn + 1}` : "");
        },
        label: item => {
          const of = request.executions[item.dataIndex];
          return `sent ${duration(of.sent_ms)}, arrived ${duration(of.arrived_ms)}, ` +
            `served from ${duration(of.served_ms)} to ${duration(of.end_ms)}`;
        }}}}};
  });
}

function requests() {
  section("request", "A request",
    note("One nominal request: each execution takes its mean time, each loop its mean number of turns and each map its " +
      "mean width, both rounded, each branch its cases as often as their probabilities say."),
    perAgent(agent => {
      const request = agent.request, present = new Set(request.executions.map(of => of.task));
      const absent = plan.pieces.flatMap(piece => piece.tasks)
        .filter(task => task.graph === agent.name && !present.has(task.task)).map(task => task.task);
      return [requestChart(agent),
        make("p", {class: "legend"}, key("transfer", "transfer"), key("waiting", "in the queue"),
          key("serving", "in service, parted at the first output"), key("critical", "critical path")),
        absent.length ? note(`Not in this request, but in others: ${absent.join(", ")}.`) : null,
        request.not_listed > 0 ? note(`${number(request.not_listed)} executions after these are not drawn.`) : null,
        make("details", {}, make("summary", {}, "In numbers"), table(
          ["task", "#turn", "#transfer", "#in the queue", "#served from", "#first output", "#end", "critical"],
          request.executions.map(of => [of.task, number(of.turn + 1), duration(of.arrived_ms - of.sent_ms),
            duration(of.served_ms - of.arrived_ms), duration(of.served_ms), duration(of.first_ms), duration(of.end_ms),
            of.critical ? "yes" : ""]))),
        note(`Over all requests the mean is ${duration(agent.mean_ms)}, the ${number(100 * agent.percentile)}th percentile ` +
          `${duration(agent.end_to_end_ms)}${agent.exact ? "" : " at most"}.`)];
    }));
}

//--- How busy all is --------------------------------------------------------------------------------------------------

function utilization() {
  const simulated = plan.simulation && new Map(plan.simulation.pieces.map(piece => [piece.name, piece.utilization]));
  const bounds = plan.constraints.filter(bound => bound.used > 0);
  const amount = (value, unit) => unit === "ms" ? duration(value) : number(value) + (unit ? " " + unit : "");
  section("utilization", "Utilisation",
    make("h3", {}, "Devices"),
    table(["pool", "#used", "", "#busy", ""], plan.pools.map((pool, index) => {
      const busy = sum(plan.pieces.filter(piece => piece.pool === pool.name && !piece.outside)
        .map(piece => piece.utilization * piece.devices)) / pool.used;
      return [dot(colourOf(index), "@" + pool.name), `${number(pool.used)} of ${number(pool.devices)}`,
        bar(pool.devices > 0 ? pool.used / pool.devices : 0, colourOf(index)),
        pool.used > 0 ? percent(busy) : "–", pool.used > 0 ? bar(busy, colourOf(index)) : ""];
    })),
    make("h3", {}, "Pieces"),
    table(["task", "pool", "#busy", "", ...(simulated ? ["#slots in use"] : [])],
      plan.pieces.filter(piece => !piece.outside || piece.utilization > 0).map(piece => {
        const slots = simulated?.get(piece.name);
        return [piece.name, poolCell(piece), percent(piece.utilization),
          bar(piece.utilization, colourOf(poolIndex(piece)), slots), ...(simulated ? [percent(slots)] : [])];
      })),
    simulated ? make("p", {class: "legend"},
      key("mark", "slots in use, as simulated; busy is the share of what the replicas sustain")) : null,
    bounds.length ? [make("h3", {}, "Bounds, the tightest first"),
      table(["bound", "#used", "#of", "", "#share"], bounds.map(bound => [bound.what, amount(bound.used, bound.unit),
        amount(bound.bound, bound.unit), limitBar(bound.used / bound.bound), percent(bound.used / bound.bound)]))] : null);
}

function checks() {
  const {simulation, confidence} = plan, content = [];
  if (simulation)
    content.push(
      make("p", {}, `Simulated for ${duration(simulation.arrival_seconds * 1000)} of arrivals: `, simulation.broken.length
        ? make("span", {class: "bad"}, "not all promises hold.") : "all promises hold."),
      list("Failures", simulation.failure_texts),
      list("Broken in the simulation", simulation.broken.map(promise => promise.text)),
      list("Planned and simulated, round by round", simulation.rounds));
  if (confidence)
    content.push(
      make("p", {}, "If times are as wrong as the cost model was where it had not seen the system " +
        `(${confidence.trials} trials), ${confidence.text}.`),
      table(["agent", "#holds with", "+broken in"],
        confidence.agents.map(agent => ["@" + agent.name, agent.text, agent.broken_text])),
      list("Planned for slower times, round by round", confidence.rounds),
      list("No plan stands slower times: there these conflict", confidence.limits));
  section("checks", "Checks", content);
}

//--- Other plans ------------------------------------------------------------------------------------------------------

// Returns the differences of a plan of the front: "answer.decode: @fast bf16 tensor 4 × 3".
function differencesOf(point) {
  const texts = point.pieces.flatMap(({piece, choice, replicas}, index) => {
    const own = plan.pieces[index];
    return choice === own.choice && replicas === own.replicas ? []
      : `${piece}: ${choice}` + (replicas === own.replicas ? "" : ` × ${number(replicas)}`);
  });
  return texts.join("; ") || "this plan";
}

function pareto() {
  const batch = batchOf(plan.totals.dollars_per_request);
  const front = [...plan.pareto].sort((a, b) => a.latency_ms - b.latency_ms);
  const unit = unitOf(Math.max(plan.totals.latency_ms, ...front.map(of => of.latency_ms)));
  const pointOf = of => ({x: of.latency_ms / unit, y: of.dollars_per_request * batch.requests});
  section("pareto", "Cost and latency",
    note("Plans none of which is better in both. Each is the cheapest for all bounds from its latency up to the next."),
    chart("Dollars against latency", 340, colour => ({type: "scatter", data: {datasets: [
      {data: [pointOf(plan.totals)], pointRadius: 9, pointHoverRadius: 9, pointBorderWidth: 2, backgroundColor: "transparent",
        borderColor: colour("ink")},
      {data: front.map(pointOf), pointRadius: 5, pointHoverRadius: 6, pointBorderWidth: 2, showLine: true,
        stepped: "before", borderDash: [3, 3], borderWidth: 1, borderColor: colour("line"),
        pointBorderColor: colour("pool0"),
        pointBackgroundColor: front.map(point => colour(point.proven ? "pool0" : "surface"))}]},
    options: {
      layout: {padding: 12},
      scales: {
        x: {grid: {color: colour("grid")}, title: {display: true, text: "end-to-end latency"},
          ticks: {callback: value => duration(value * unit), maxRotation: 0, autoSkipPadding: 24}},
        y: {beginAtZero: true, grid: {color: colour("grid")}, title: {display: true, text: "dollars for " + batch.name},
          ticks: {callback: value => "$" + number(value)}}},
      tooltip: {filter: item => item.datasetIndex === 1, displayColors: false,
        callbacks: {label: item => differencesOf(front[item.dataIndex]).split("; ")}}}})),
    make("p", {class: "legend"}, key("chosen", "this plan"), key("point", "proven: no plan costs less and is as fast"),
      key("open", "the best that was found")),
    plan.pareto_complete ? null
      : note("Out of time: there may be faster plans, and others between these; give more with --time-limit."),
    table(["#latency", "#$ for " + batch.name, "#$ an hour", "#watts", "+does otherwise than this plan"],
      plan.pareto.map(point => [duration(point.latency_ms), number(point.dollars_per_request * batch.requests),
        number(point.dollars_per_hour), number(point.watts), differencesOf(point)])));
}

function whyNot() {
  const batch = batchOf(plan.totals.dollars_per_request), own = plan.totals.objective;
  let before;
  section("why-not", "Why not",
    note("The best plan in which one piece does otherwise than planned, all else being free to change."),
    table(["task", "planned", "instead", "#more", "+reason"], plan.why_not.map(other => {
      const isFirst = before !== other.piece, possible = other.objective !== null;
      before = other.piece;
      return [isFirst ? other.piece : "", isFirst ? plan.pieces.find(piece => piece.name === other.piece).choice : "",
        other.choice ?? (other.pool === null ? "any other" : "@" + other.pool),
        possible && own ? percent((other.objective - own) / Math.abs(own)).replace(/^(?=\d)/, "+") : "",
        possible && plan.objective === "dollars per request"
          ? `${batch.dollars(other.objective - own)} more for ${batch.name}` : other.reason];
    })));
}

function sensitivity() {
  section("sensitivity", "Sensitivity",
    note("At which value of one figure, all others as they are, another plan would be better or this one would break."),
    plan.sensitivity_not_asked ? make("p", {}, sentence(plan.sensitivity_not_asked)) : null,
    table(["figure", "#given", "below", "above"],
      plan.sensitivity.map(({text}) => [text.figure, text.given, text.below, text.above])));
}

function conflicts() {
  section("conflicts", "What conflicts",
    note(`${plan.conflicts_text}. What would do is the value that makes a plan possible, all else as it is.`),
    table(["+asked", "#given", "#would do"], plan.conflicts.map(conflict =>
      [conflict.text, conflict.given > 0 ? number(conflict.given) : "", number(conflict.would_do)])));
}

//--- The page ---------------------------------------------------------------------------------------------------------

const title = "Plan of " + plan.graphs.join(", ");
document.title = title;
main.append(make("h1", {}, title), statusOf());
if (plan.pieces) {
  main.append(make("nav"));
  summary();
  placements();
  if (plan.replan)
    changes();
  graphs();
  requests();
  utilization();
  if (plan.confidence || plan.simulation)
    checks();
  if (plan.pareto)
    pareto();
  if (plan.why_not.length)
    whyNot();
  if (plan.sensitivity)
    sensitivity();
} else if (plan.conflicts) {
  conflicts();
}
section("notes", "Notes", list("Rests on figures that are unsure", plan.unsure), list("Not on offer", plan.not_offered),
  plan.unsure.length || plan.not_offered.length ? null : make("p", {}, "None."));

fitGraphs();
drawCharts();
addEventListener("resize", fitGraphs);
for (const query of ["print", "(prefers-color-scheme: dark)"])
  matchMedia(query).addEventListener("change", () => { fitGraphs(); drawCharts(); });
