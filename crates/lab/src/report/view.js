// Draws a qlog file of SCTP: time-sequence diagram, windows, round trips, losses, and what waited for what.

const COLOURS = ['#1f77c8', '#d9801e', '#2a9d8f', '#a568d0', '#c8324a', '#8a8f2f', '#5b6ee1', '#b0707a'];
const LOST = '#d0364c';
const byId = (id) => document.getElementById(id);

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// ---- Reading ----

function records(text) {
  const found = [];
  let bad = 0;
  for (const part of text.split('\u001e')) {
    if (!part.trim()) continue;
    try {
      found.push(JSON.parse(part));
    } catch {
      // The last record of a run that was interrupted is incomplete.
      bad += 1;
    }
  }
  return { head: found[0] || {}, events: found.slice(1).filter((event) => event && typeof event.name === 'string'), bad };
}

// TSNs of one direction of an association are numbered from the first one; serial numbers may wrap (RFC 1982).
class Flow {
  constructor() {
    this.first = null;
    this.chunks = new Map();
    this.sends = [];
    this.acked = -1;
    this.highest = -1;
    this.acks = [];
    this.gaps = [];
  }

  place(tsn) {
    if (this.first === null) this.first = tsn;
    return (tsn - this.first) | 0;
  }

  data(at, path, chunk) {
    const place = this.place(chunk.tsn);
    let its = this.chunks.get(place);
    const again = its !== undefined;
    if (!its) {
      its = { place, tsn: chunk.tsn, stream: chunk.stream_id, at, path, times: 0, acked: null, unordered: chunk.unordered };
      this.chunks.set(place, its);
    }
    its.times += 1;
    its.last = path;
    this.highest = Math.max(this.highest, place);
    this.sends.push({ at, place, path, stream: chunk.stream_id, length: chunk.length, again });
  }

  sack(at, chunk) {
    if (this.first === null) return;
    const cumulative = Math.min((chunk.cumulative_tsn_ack - this.first) | 0, this.highest);
    const ack = (place) => {
      const its = this.chunks.get(place);
      if (its && its.acked === null) its.acked = at;
    };
    for (let place = this.acked + 1; place <= cumulative; place += 1) ack(place);
    this.acked = Math.max(this.acked, cumulative);
    this.acks.push([at, this.acked]);
    for (const [first, last] of chunk.gap_ack_blocks || []) {
      const [from, to] = [first, last].map((tsn) => (tsn - this.first) | 0);
      for (let place = from; place <= Math.min(to, this.highest); place += 1) ack(place);
      this.gaps.push([at, from, to]);
    }
  }
}

function ports(path) {
  return path.split('>').map((end) => end.slice(end.lastIndexOf(':') + 1)).join('>');
}

function read(text) {
  const { head, events, bad } = records(text);
  const model = {
    title: head.title || 'without a title', vantage: ((head.trace || {}).vantage_point || {}).type || 'unknown',
    events: events.length, bad, start: Infinity, end: 0, paths: new Map(), associations: new Map(), stalls: new Map(), dtls: 0,
  };
  const path = (name) => {
    if (!model.paths.has(name)) {
      const colour = COLOURS[model.paths.size % COLOURS.length];
      model.paths.set(name, { name, colour, shown: true, packets: [0, 0], bytes: [0, 0], metrics: {}, states: [], losses: [] });
    }
    return model.paths.get(name);
  };
  const association = (name) => {
    const key = ports(name);
    if (!model.associations.has(key)) model.associations.set(key, { key, sent: new Flow(), received: new Flow() });
    return model.associations.get(key);
  };
  const packet = (event, at, way) => {
    const { data } = event;
    const its = path(data.path);
    its.packets[way] += 1;
    its.bytes[way] += data.length || 0;
    const { sent, received } = association(data.path);
    const [own, other] = way === 0 ? [sent, received] : [received, sent];
    for (const chunk of data.chunks || []) {
      if (chunk.chunk_type === 'data' || chunk.chunk_type === 'i_data') own.data(at, its, chunk);
      else if (String(chunk.chunk_type).endsWith('sack')) other.sack(at, chunk);
      else if (chunk.chunk_type === 'dtls') model.dtls += 1;
    }
  };
  for (const event of events) {
    const at = Number(event.time);
    const data = event.data;
    if (!Number.isFinite(at) || !data) continue;
    model.start = Math.min(model.start, at);
    model.end = Math.max(model.end, at);
    const name = event.name.replace('sctp:', '');
    if (name === 'packet_sent' && data.path) packet(event, at, 0);
    else if (name === 'packet_received' && data.path) packet(event, at, 1);
    else if (name === 'metrics_updated' && data.path) metrics(path(data.path), at, data);
    else if (name === 'path_state_updated' && data.path) path(data.path).states.push([at, data.new]);
    else if (name === 'association_state_updated') {
      const key = String(data.association);
      if (!model.stalls.has(key)) model.stalls.set(key, []);
      model.stalls.get(key).push([at, data.stall || '']);
    }
  }
  if (!(model.start <= model.end)) [model.start, model.end] = [0, 1];
  return model;
}

function metrics(path, at, data) {
  for (const key of ['congestion_window', 'bytes_in_flight', 'ssthresh', 'smoothed_rtt', 'rto', 'retransmitted_chunks', 'fast_retransmits', 'timeouts']) {
    if (typeof data[key] !== 'number') continue;
    const its = path.metrics[key] = path.metrics[key] || [];
    const before = its.length ? its[its.length - 1][1] : 0;
    if (key === 'timeouts' || key === 'fast_retransmits') {
      if (data[key] > before) path.losses.push([at, key]);
    }
    its.push([at, data[key]]);
  }
}

// What waited for what: chunks of a stream that arrived (or were acknowledged) before an earlier one of the same stream.
function waits(flow, isArrival) {
  const streams = new Map();
  const chunks = [...flow.chunks.values()].sort((a, b) => a.place - b.place);
  for (const chunk of chunks) {
    const there = isArrival ? chunk.at : chunk.acked;
    if (!streams.has(chunk.stream)) streams.set(chunk.stream, { stream: chunk.stream, chunks: 0, waited: 0, longest: 0, by: null, last: null });
    const its = streams.get(chunk.stream);
    its.chunks += 1;
    if (there === null || chunk.unordered) continue;
    if (its.last && its.last.there > there) {
      its.waited += 1;
      const time = its.last.there - there;
      if (time > its.longest) [its.longest, its.by] = [time, its.last.chunk];
    } else {
      its.last = { there, chunk };
    }
  }
  return [...streams.values()].sort((a, b) => a.stream - b.stream);
}

// ---- Drawing ----

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${(value / 1e3).toPrecision(3)} k`;
  return String(Number(value.toPrecision(4)));
}

function ticks(low, high, count = 5) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9 && found.length < 20; at += step) found.push(at);
  return found;
}

// A chart over time; all charts of a page show the same span.
class Chart {
  constructor(page, canvas, draw, label) {
    Object.assign(this, { page, canvas, contents: draw, label, points: [] });
    canvas.setAttribute('tabindex', '0');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', label);
    let from = null;
    canvas.addEventListener('pointerdown', (event) => { from = event.offsetX; });
    canvas.addEventListener('pointermove', (event) => this.tip(event));
    canvas.addEventListener('pointerleave', () => { byId('tip').hidden = true; });
    canvas.addEventListener('pointerup', (event) => {
      if (from !== null && Math.abs(event.offsetX - from) > 6) page.zoom(...[from, event.offsetX].map((x) => this.time(x)).sort((a, b) => a - b));
      from = null;
    });
    canvas.addEventListener('dblclick', () => page.zoom(page.model.start, page.model.end));
    canvas.addEventListener('keydown', (event) => {
      const [a, b] = page.span;
      const step = (b - a) / 5;
      const spans = { ArrowLeft: [a - step, b - step], ArrowRight: [a + step, b + step], '+': [a + step, b - step], '-': [a - step, b + step], Escape: [page.model.start, page.model.end] };
      if (spans[event.key]) {
        event.preventDefault();
        page.zoom(...spans[event.key]);
      }
    });
  }

  time(x) {
    const [a, b] = this.page.span;
    return a + (x - 70) / (this.canvas.clientWidth - 84) * (b - a);
  }

  x(at) {
    const [a, b] = this.page.span;
    return 70 + (at - a) / ((b - a) || 1) * (this.canvas.clientWidth - 84);
  }

  draw() {
    const { canvas } = this;
    const scale = window.devicePixelRatio || 1;
    const [wide, high] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = wide * scale;
    canvas.height = high * scale;
    const pen = canvas.getContext('2d');
    pen.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const [soft, rule] = ['--soft', '--rule'].map((name) => style.getPropertyValue(name).trim());
    pen.font = '11px system-ui, sans-serif';
    this.points = [];
    const series = this.contents();
    const [a, b] = this.page.span;
    const within = series.flatMap((one) => one.points).filter(([at]) => at >= a && at <= b);
    let [low, top] = [Infinity, -Infinity];
    for (const [, value] of within) [low, top] = [Math.min(low, value), Math.max(top, value)];
    if (!within.length) [low, top] = [0, 1];
    if (!this.page.isFloating(this)) low = Math.min(low, 0);
    if (top <= low) top = low + 1;
    const floor = high - 22;
    const y = (value) => floor - (value - low) / (top - low) * (floor - 12);
    pen.fillStyle = soft;
    pen.strokeStyle = rule;
    pen.textAlign = 'right';
    for (const tick of ticks(low, top)) {
      pen.beginPath();
      pen.moveTo(70, y(tick));
      pen.lineTo(wide - 14, y(tick));
      pen.stroke();
      pen.fillText(short(tick), 62, y(tick) + 4);
    }
    pen.textAlign = 'center';
    for (const tick of ticks(a, b, wide / 120)) pen.fillText(`${short(tick)} ms`, this.x(tick), high - 6);
    pen.save();
    pen.beginPath();
    pen.rect(70, 0, wide - 84, high);
    pen.clip();
    for (const one of series) this.series(pen, one, y);
    pen.restore();
  }

  series(pen, { points, colour, form, name, size }, y) {
    pen.fillStyle = colour;
    pen.strokeStyle = colour;
    pen.lineWidth = 1.4;
    pen.setLineDash(form === 'dashes' ? [5, 4] : []);
    if (form === 'dots') {
      const half = (size || 3) / 2;
      for (const [at, value] of points) pen.fillRect(this.x(at) - half, y(value) - half, half * 2, half * 2);
    } else {
      pen.beginPath();
      points.forEach(([at, value], index) => {
        if (index) pen.lineTo(this.x(at), y(points[index - 1][1]));
        pen.lineTo(this.x(at), y(value));
      });
      const last = points[points.length - 1];
      if (last) pen.lineTo(this.x(this.page.model.end), y(last[1]));
      pen.stroke();
    }
    pen.setLineDash([]);
    for (const [at, value, says] of points) this.points.push([this.x(at), y(value), `${name}: ${says || short(value)} at ${short(at)} ms`]);
  }

  tip(event) {
    const tip = byId('tip');
    let best = [200, ''];
    for (const [x, y, says] of this.points) {
      const distance = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (distance < best[0]) best = [distance, says];
    }
    tip.hidden = !best[1];
    tip.textContent = best[1];
    tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 320)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  }
}

// Bars over time: stalls and states of paths, with marks of losses.
class Bars extends Chart {
  draw() {
    const { canvas, page } = this;
    const rows = this.contents();
    canvas.style.height = `${rows.length * 26 + 30}px`;
    const scale = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = canvas.clientHeight * scale;
    const pen = canvas.getContext('2d');
    pen.scale(scale, scale);
    pen.font = '11px system-ui, sans-serif';
    const soft = getComputedStyle(document.documentElement).getPropertyValue('--soft').trim();
    this.points = [];
    rows.forEach(({ name, spans, marks }, index) => {
      const top = index * 26 + 8;
      pen.save();
      pen.beginPath();
      pen.rect(70, 0, canvas.clientWidth - 84, canvas.clientHeight);
      pen.clip();
      for (const [from, to, says, colour] of spans) {
        pen.fillStyle = colour;
        pen.globalAlpha = 0.55;
        pen.fillRect(this.x(from), top, Math.max(this.x(to) - this.x(from), 1.5), 16);
        pen.globalAlpha = 1;
        this.points.push([(this.x(from) + this.x(to)) / 2, top + 8, `${name}: ${says}, ${short(from)} to ${short(to)} ms`]);
      }
      for (const [at, says] of marks) {
        pen.fillStyle = LOST;
        pen.fillRect(this.x(at) - 1, top - 2, 2.5, 20);
        this.points.push([this.x(at), top + 8, `${name}: ${says} at ${short(at)} ms`]);
      }
      pen.fillStyle = soft;
      pen.textAlign = 'left';
      pen.fillText(name, 74, top + 12);
      pen.restore();
    });
    pen.fillStyle = soft;
    pen.textAlign = 'center';
    for (const tick of ticks(...page.span, canvas.clientWidth / 120)) pen.fillText(`${short(tick)} ms`, this.x(tick), canvas.clientHeight - 6);
  }
}

// Values over time as spans, each until the next one; `keep` returns the text and the colour of a span, or null.
function spans(values, end, keep) {
  return values.flatMap(([from, value], index) => {
    const kept = keep(value);
    return kept ? [[from, index + 1 < values.length ? values[index + 1][0] : end, ...kept]] : [];
  });
}

class Page {
  constructor(model) {
    this.model = model;
    this.span = [model.start, model.end];
    this.charts = [];
    const size = (one) => one.sent.sends.length + one.received.sends.length;
    this.associations = [...model.associations.values()].sort((a, b) => size(b) - size(a));
    this.association = this.associations[0] || { key: '', sent: new Flow(), received: new Flow() };
    const { sent, received } = this.association;
    this.way = received.sends.length > sent.sends.length ? 'received' : 'sent';
    this.stream = 'all';
    this.show();
  }

  get flow() {
    return this.association[this.way];
  }

  isFloating(chart) {
    return chart === this.sequence;
  }

  zoom(from, to) {
    if (!(to - from > 0.001)) return;
    this.span = [from, to];
    this.draw();
  }

  draw() {
    this.charts.forEach((chart) => chart.draw());
  }

  section(title, hint, kind, contents, low) {
    const canvas = element('canvas', low ? { class: 'low' } : {});
    const section = element('section', {}, element('h2', {}, title), element('p', { class: 'hint' }, hint), canvas);
    byId('view').append(section);
    const chart = new kind(this, canvas, contents, title);
    this.charts.push(chart);
    return chart;
  }

  select(label, options, chosen, change) {
    const box = element('select', { 'aria-label': label });
    for (const [value, says] of options) {
      const option = element('option', { value }, says);
      option.selected = value === chosen;
      box.append(option);
    }
    box.addEventListener('change', () => change(box.value));
    return element('label', {}, `${label} `, box);
  }

  controls() {
    const bar = byId('choices');
    bar.replaceChildren();
    if (this.associations.length > 1) {
      const options = this.associations.map((one, index) => [String(index), `ports ${one.key}`]);
      const chosen = String(this.associations.indexOf(this.association));
      bar.append(this.select('Association', options, chosen, (value) => {
        this.association = this.associations[Number(value)];
        this.stream = 'all';
        this.refresh();
      }));
    }
    bar.append(this.select('Data', [['sent', 'sent'], ['received', 'received']], this.way, (value) => {
      this.way = value;
      this.stream = 'all';
      this.refresh();
    }));
    const streams = [...new Set([...this.flow.chunks.values()].map((chunk) => chunk.stream))].sort((a, b) => a - b);
    bar.append(this.select('Stream', [['all', 'all'], ...streams.map((its) => [String(its), String(its)])], this.stream, (value) => {
      this.stream = value;
      this.draw();
    }));
    for (const path of this.model.paths.values()) {
      const box = element('input', { type: 'checkbox' });
      box.checked = path.shown;
      box.addEventListener('change', () => {
        path.shown = box.checked;
        this.draw();
      });
      const sample = element('i', {});
      sample.style.background = path.colour;
      bar.append(element('label', {}, box, sample, path.name));
    }
  }

  refresh() {
    this.controls();
    this.tables();
    this.draw();
  }

  shown() {
    return [...this.model.paths.values()].filter((path) => path.shown);
  }

  sequenceSeries() {
    const isIn = (send) => this.stream === 'all' || String(send.stream) === this.stream;
    const point = (send) => [send.at, send.place, `TSN ${send.place} of stream ${send.stream}, ${send.length} bytes`];
    const series = this.shown().map((path) => {
      const its = this.flow.sends.filter((send) => send.path === path && isIn(send) && !send.again);
      return { name: path.name, colour: path.colour, form: 'dots', points: its.map(point) };
    });
    const again = this.flow.sends.filter((send) => send.again && send.path.shown && isIn(send));
    series.push({ name: this.way === 'sent' ? 'retransmission' : 'received again', colour: LOST, form: 'dots', size: 5, points: again.map(point) });
    series.push({ name: 'cumulative TSN ack', colour: '#8a93a5', points: this.flow.acks });
    return series;
  }

  lines(keys) {
    return this.shown().flatMap((path) => keys.flatMap(([key, form]) => {
      const points = path.metrics[key] || [];
      return points.length ? [{ name: `${key.replaceAll('_', ' ')} of ${path.name}`, colour: path.colour, form, points }] : [];
    }));
  }

  blocked() {
    const { end } = this.model;
    const rows = [...this.model.stalls].map(([name, values]) => ({
      name: `association ${name}`, marks: [], spans: spans(values, end, (says) => (says ? [says, '#a568d0'] : null)),
    }));
    for (const path of this.shown()) {
      const colours = { Active: null, Unconfirmed: '#8a93a5', PotentiallyFailed: '#d9801e', Inactive: LOST };
      const kept = (state) => (state === 'Active' ? null : [state, colours[state] || '#8a93a5']);
      const marks = path.losses.map(([at, key]) => [at, key === 'timeouts' ? 'time-out' : 'fast retransmission']);
      rows.push({ name: path.name, marks, spans: spans(path.states, end, kept) });
    }
    return rows;
  }

  tables() {
    const host = byId('tables');
    const cells = (kind, texts) => element('tr', {}, ...texts.map((text) => element(kind, {}, String(text))));
    const waited = waits(this.flow, this.way === 'received');
    const table = element('table', { id: 'waits' }, cells('th', ['stream', 'chunks', 'of them waited', 'at most', 'for TSN', 'of path']));
    for (const its of waited) {
      const by = its.by;
      const why = by ? `${by.place}${by.times > 1 ? ', sent again' : ''}` : '';
      table.append(cells('td', [its.stream, its.chunks, its.waited, its.waited ? `${short(its.longest)} ms` : '', why, by ? by.last.name : '']));
    }
    const paths = element('table', { id: 'paths' }, cells('th', ['path', 'packets sent', 'bytes sent', 'received', 'bytes received', 'time-outs', 'fast retransmissions']));
    for (const path of this.model.paths.values()) {
      const count = (key) => path.losses.filter(([, its]) => its === key).length;
      paths.append(cells('td', [path.name, path.packets[0], path.bytes[0], path.packets[1], path.bytes[1], count('timeouts'), count('fast_retransmits')]));
    }
    const known = this.way === 'received' ? 'arrived' : 'were acknowledged';
    host.replaceChildren(
      element('section', {}, element('h2', {}, 'Who blocked whom: streams'), element('p', { class: 'hint' }, `Ordered chunks that ${known} before an earlier chunk of their stream, and the one for which they waited longest.`), table),
      element('section', {}, element('h2', {}, 'Paths'), paths),
    );
  }

  show() {
    const { model } = this;
    const view = byId('view');
    view.replaceChildren(element('div', { id: 'choices', class: 'choices' }));
    view.hidden = false;
    byId('title').textContent = model.title;
    this.controls();
    this.sequence = this.section('Time-sequence diagram', 'TSNs from the first one, by path; red: sent again. Drag to zoom, double-click or Escape for the whole.', Chart, () => this.sequenceSeries());
    this.section('Congestion window and bytes in flight, bytes', 'Dashed: bytes in flight.', Chart, () => this.lines([['congestion_window'], ['bytes_in_flight', 'dashes']]));
    this.section('Round-trip time, ms', 'Smoothed; dashed: RTO.', Chart, () => this.lines([['smoothed_rtt'], ['rto', 'dashes']]), true);
    this.section('Losses, states and stalls', 'Red marks: time-outs and fast retransmissions. Bars: why an association waits although its windows are open; paths that are not active.', Bars, () => this.blocked());
    view.append(element('div', { id: 'tables' }));
    this.tables();
    const chunks = [...model.associations.values()].flatMap((one) => [...one.sent.sends, ...one.received.sends]);
    const again = chunks.filter((send) => send.again).length;
    const streams = new Set([...this.flow.chunks.values()].map((chunk) => chunk.stream)).size;
    const count = (number, word) => `${number} ${word}${number === 1 ? '' : 's'}`;
    // The log of a real endpoint does not say which end it is.
    const end = model.vantage === 'unknown' ? '' : ` of the ${model.vantage}`;
    const parts = [
      count(model.events, 'event') + end, count(model.paths.size, 'path'), `${count(chunks.length, 'DATA chunk')}, ${again} of them again`, count(streams, 'stream'),
      `${short(model.end - model.start)} ms`,
    ];
    if (model.dtls) parts.push(`${model.dtls} protected chunks, whose contents only the two ends know`);
    if (model.bad) parts.push(`${model.bad} incomplete records left out`);
    byId('summary').textContent = parts.join(' · ');
    this.draw();
  }
}

let page = null;

function open(text) {
  const { head } = records(text.slice(0, text.indexOf('\u001e', 1) < 0 ? text.length : text.indexOf('\u001e', 1)));
  if (!String(head.file_schema || '').startsWith('urn:ietf:params:qlog:file:sequential')) {
    byId('summary').textContent = 'This is no qlog file of the form JSON-SEQ.';
    byId('view').hidden = true;
    return;
  }
  page = new Page(read(text));
}

byId('file').addEventListener('change', async (event) => {
  if (event.target.files[0]) open(await event.target.files[0].text());
});
for (const [name, isOver] of [['dragover', true], ['dragleave', false], ['drop', false]]) {
  document.addEventListener(name, async (event) => {
    event.preventDefault();
    document.body.classList.toggle('drop', isOver);
    const file = name === 'drop' && event.dataTransfer.files[0];
    if (file) open(await file.text());
  });
}
window.addEventListener('resize', () => page && page.draw());
const embedded = JSON.parse(byId('qlog').textContent);
if (embedded !== null) open(embedded);
