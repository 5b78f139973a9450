// Pictures of sweeps: a panel for each value of one axis, a line or a bar for each value of another.

const SVG = 'http://www.w3.org/2000/svg';
const measure = document.createElement('canvas').getContext('2d');
const FONT = 'system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif';

function node(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function widthOf(text, size) {
  measure.font = `${size}px ${FONT}`;
  return measure.measureText(text).width;
}

// With three digits that count, as the rest of the page has them.
function short(value) {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const digits = 2 - Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.min(6, Math.max(0, digits))).replace('-', '\u2212');
}

// With all digits that the page has.
function exact(value) {
  return String(Number(value.toPrecision(6))).replace('-', '\u2212');
}

// Beside an axis: no idle zeros, thousands apart.
function tickText(value) {
  if (Math.abs(value) >= 10000) return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
  return String(Number(value.toFixed(6))).replace('-', '\u2212');
}

function linearScale(smallest, largest) {
  const low = Math.min(0, smallest * 1.04);
  const span = (largest > 0 ? largest * 1.04 : low < 0 ? 0 : 1) - low;
  const power = 10 ** Math.floor(Math.log10(span / 5));
  const step = [1, 2, 2.5, 5, 10].map((part) => part * power).find((part) => part >= span / 5 * 0.999);
  const first = Math.floor(low / step), last = Math.ceil((low + span) / step - 1e-9);
  const ticks = [];
  for (let at = first; at <= last; at += 1) ticks.push(at * step);
  const [from, to] = [first * step, last * step];
  return { ticks, part: (value) => (value - from) / (to - from), base: Math.max(0, from) };
}

function logScale(smallest, largest) {
  const low = smallest * 0.85, high = Math.max(largest, smallest * 1.5) * 1.15;
  const decades = Math.log10(high / low);
  const steps = decades > 3 ? [1] : decades > 1.6 ? [1, 3] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const step of steps) {
      const tick = step * 10 ** power;
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return { ticks, part: (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low), base: low };
}

function wrap(text, width, size) {
  const lines = [];
  for (const word of text.split(' ')) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && widthOf(longer, size) <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

function mark(shape, x, y, size) {
  const corners = (list) => list.map(([dx, dy]) => `${(x + dx * size).toFixed(1)},${(y + dy * size).toFixed(1)}`).join(' ');
  const polygon = (list) => node('polygon', { class: 'mark', points: corners(list) });
  switch (shape % 5) {
    case 0: return node('circle', { class: 'mark', cx: x.toFixed(1), cy: y.toFixed(1), r: size });
    case 1: return polygon([[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]);
    case 2: return polygon([[0, -1.25], [1.15, 0.85], [-1.15, 0.85]]);
    case 3: return polygon([[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]]);
    default: return polygon([[0, 1.25], [1.15, -0.85], [-1.15, -0.85]]);
  }
}

// The number of columns that leaves the fewest empty places.
function columnsFor(count, most) {
  let best = 1;
  for (let columns = 1; columns <= Math.min(count, most); columns += 1) {
    const empty = (many) => Math.ceil(count / many) * many - count;
    const deep = (many) => Math.ceil(count / many);
    if (deep(columns) + empty(columns) * 0.4 <= deep(best) + empty(best) * 0.4) best = columns;
  }
  return best;
}

class Chart {
  constructor(host, data) {
    Object.assign(this, { host, data, hidden: new Set(), column: data.y, log: data.logY, same: false, width: 0 });
    this.one = { values: [{ t: '' }] };
    this.facet = data.facet || this.one;
    this.rows = data.rows || this.one;
    // Where the lines are the places themselves, a legend would say everything twice.
    this.hasLegend = data.by.values.length > 1 && data.by.name !== data.x.name;
    this.isBand = data.bars || data.x.values.some((value) => value.n === undefined);
    host.append(element('div', { class: 'above' }, this.hasLegend ? this.legend() : '', this.controls()));
    this.grid = element('div', { class: 'panels' });
    host.append(this.grid);
    new ResizeObserver(() => this.fit()).observe(host);
    this.fit();
  }

  fit() {
    if (Math.abs(this.host.clientWidth - this.width) < 2 || !this.host.clientWidth) return;
    this.draw();
  }

  controls() {
    const bar = element('div', { class: 'controls' });
    const { columns } = this.data;
    if (columns.length > 1) {
      const select = element('select', { 'aria-label': 'What goes up' });
      columns.forEach((column, index) => {
        const option = element('option', { value: index, title: column.unit }, column.name.replace(/_/g, ' '));
        if (index === this.column) option.selected = true;
        select.append(option);
      });
      select.addEventListener('change', () => {
        this.column = Number(select.value);
        this.draw();
      });
      bar.append(select);
    }
    const toggle = (text, is, set) => {
      const button = element('button', { type: 'button', 'aria-pressed': String(is()) }, text);
      button.addEventListener('click', () => {
        set(!is());
        button.setAttribute('aria-pressed', String(is()));
        this.draw();
      });
      bar.append(button);
    };
    if (!this.data.bars) toggle('log scale', () => this.log, (on) => { this.log = on; });
    if (this.facet.values.length * this.rows.values.length > 1) toggle('same scale', () => this.same, (on) => { this.same = on; });
    return bar;
  }

  columnText(index) {
    const { name, unit } = this.data.columns[index];
    if (index === this.data.y) return this.data.yLabel;
    const spoken = name.replace(/_/g, ' ');
    return unit && unit !== spoken ? `${spoken} (${unit})` : spoken;
  }

  legend() {
    const legend = element('div', { class: 'legend', role: 'group', 'aria-label': this.data.by.label });
    const buttons = this.data.by.values.map((value, index) => {
      const sample = node('svg', { viewBox: '0 0 30 14', 'aria-hidden': 'true' });
      if (this.data.bars) sample.append(node('rect', { class: 'bar', x: 8, y: 1, width: 14, height: 12, rx: 2 }));
      else sample.append(node('path', { class: 'line', d: 'M1 7H29' }), mark(value.c[2], 15, 7, 4.4));
      const button = element('button', {
        type: 'button', 'aria-pressed': 'true', 'data-series': index, class: 'series', style: colours(value),
        title: 'Click: hide or show. Shift-click: this one alone, or all.',
      }, sample, value.t);
      button.addEventListener('click', (event) => {
        if (event.shiftKey) {
          const alone = this.hidden.size === this.data.by.values.length - 1 && !this.hidden.has(index);
          this.hidden = new Set(alone ? [] : this.data.by.values.keys());
          if (!alone) this.hidden.delete(index);
        } else if (!this.hidden.delete(index)) this.hidden.add(index);
        buttons.forEach((other, place) => other.setAttribute('aria-pressed', String(!this.hidden.has(place))));
        this.draw();
      });
      for (const [event, on] of [['pointerenter', true], ['pointerleave', false]]) {
        button.addEventListener(event, () => {
          this.grid.classList.toggle('picking', on);
          this.grid.querySelectorAll('g.series').forEach((group) => {
            group.classList.toggle('picked', on && group.dataset.series === String(index));
          });
        });
      }
      return button;
    });
    legend.append(...buttons);
    return legend;
  }

  // Of a point: mean, low, high, median, a tenth, nine tenths of the column that is drawn.
  numbers(cell) {
    return cell.v[this.column];
  }

  draw() {
    this.width = this.host.clientWidth;
    hideTip();
    const { width } = this;
    const count = this.facet.values.length * this.rows.values.length;
    const columns = this.rows.values.length > 1 && width / this.facet.values.length > 235
      ? this.facet.values.length : columnsFor(count, Math.max(1, Math.floor(width / 285)));
    const gap = 18;
    const wide = Math.floor((width - gap * (columns - 1)) / columns);
    const high = count === 1 ? Math.min(430, Math.max(250, wide * 0.5)) : Math.max(225, Math.min(340, wide * 0.74));
    this.grid.style.gridTemplateColumns = `repeat(${columns}, ${wide}px)`;
    this.grid.replaceChildren();
    const shown = this.data.cells.filter((cell) => !this.hidden.has(cell.p[1]));
    const shared = this.same ? this.scale(shown) : null;
    const panels = [];
    for (const row of this.rows.values.keys()) {
      for (const facet of this.facet.values.keys()) {
        const cells = shown.filter((cell) => cell.p[2] === facet && cell.p[3] === row);
        const name = [this.rows.values[row].t, this.facet.values[facet].t].filter(Boolean).join(' · ');
        panels.push({ name, cells, scale: shared || this.scale(cells), row, facet });
      }
    }
    const labels = panels.flatMap((panel) => panel.scale.ticks.map((tick) => widthOf(tickText(tick), 12)));
    const left = 30 + Math.max(16, ...labels);
    panels.forEach((panel, index) => {
      this.grid.append(this.panel(panel, { wide, high, left, isFirst: index % columns === 0 }));
    });
  }

  scale(cells) {
    const numbers = cells.map((cell) => this.numbers(cell));
    const largest = Math.max(0, ...numbers.map((numbers) => numbers[2]));
    const smallest = Math.min(0, ...numbers.map((numbers) => numbers[1]));
    const positive = numbers.map((numbers) => numbers[0]).filter((mean) => mean > 0);
    if (this.log && positive.length) return logScale(Math.min(...positive), largest);
    return linearScale(smallest, largest);
  }

  panel(panel, { wide, high, left, isFirst }) {
    const { data } = this;
    const size = 12;
    const places = data.x.values.map((value, index) => index)
      .filter((index) => data.cells.some((cell) => cell.p[0] === index && cell.p[2] === panel.facet && cell.p[3] === panel.row));
    const inner = wide - left - 8;
    const slot = inner / Math.max(1, places.length);
    const names = places.map((place) => (this.isBand ? wrap(data.x.values[place].t, slot - 6, size) : [data.x.values[place].t]));
    const lines = Math.max(1, ...names.map((name) => name.length));
    const title = wrap(panel.name, (wide - left) / 1.12, 14); // It is bold.
    const below = wrap(data.x.label, wide - 4, size);
    const top = panel.name ? 12 + 16 * title.length : 12;
    const bottom = high - 14 - lines * 14 - below.length * 14;
    const along = this.along(places);
    const x = (place) => left + along(place) * inner;
    const y = (value) => bottom - Math.max(0, Math.min(1.03, panel.scale.part(value))) * (bottom - top);
    const svg = node('svg', {
      class: 'panel', viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, tabindex: 0, role: 'img',
      'aria-label': `${this.host.dataset.label}${panel.name ? `, ${panel.name}` : ''}: ${this.columnText(this.column)} by ${data.x.label}. Arrow keys go from point to point; the numbers are in the table below.`,
    });
    const text = (className, at, attributes, what) => node('text', { class: className, x: at[0].toFixed(1), y: at[1].toFixed(1), ...attributes }, what);
    title.forEach((line, row) => svg.append(text('name', [left, 16 + row * 16], {}, line)));
    for (const tick of panel.scale.ticks) {
      svg.append(node('path', { class: 'grid', d: `M${left} ${y(tick).toFixed(1)}H${wide - 8}` }));
      svg.append(text('tick', [left - 7, y(tick) + 4], { 'text-anchor': 'end' }, tickText(tick)));
    }
    let last = -Infinity;
    places.forEach((place, index) => {
      const half = Math.max(...names[index].map((line) => widthOf(line, size))) / 2;
      svg.append(node('path', { class: 'axis', d: `M${x(place).toFixed(1)} ${bottom}v4` }));
      if (x(place) - half <= last + 4) return;
      last = x(place) + half;
      names[index].forEach((line, row) => {
        const middle = Math.min(x(place), wide - widthOf(line, size) / 2 - 1);
        svg.append(text('tick', [middle, bottom + 18 + row * 14], { 'text-anchor': 'middle' }, line));
      });
    });
    svg.append(node('path', { class: 'axis', d: `M${left} ${bottom}H${wide - 8}` }));
    below.forEach((line, row) => {
      const half = widthOf(line, size) / 2 + 1;
      const middle = Math.max(half, Math.min(left + inner / 2, wide - half));
      svg.append(text('label', [middle, high - 6 - (below.length - 1 - row) * 14], { 'text-anchor': 'middle' }, line));
    });
    if (isFirst) {
      const label = this.columnText(this.column);
      const fit = Math.max(0.75, Math.min(1, (high - 8) / widthOf(label, size)));
      const half = Math.min(high - 8, widthOf(label, size) * fit) / 2;
      const middle = Math.max(half + 2, Math.min((top + bottom) / 2, high - half - 2)).toFixed(1);
      svg.append(text('label', [12, Number(middle)], {
        'text-anchor': 'middle', transform: `rotate(-90 12 ${middle})`, style: `font-size:${(size * fit).toFixed(1)}px`,
      }, label));
    }
    const series = data.by.values.map((value, index) => ({ value, index, cells: panel.cells.filter((cell) => cell.p[1] === index) }))
      .filter((series) => series.cells.length);
    // Bars of one place stand side by side.
    const at = new Map();
    if (data.bars) {
      for (const place of places) {
        const its = panel.cells.filter((cell) => cell.p[0] === place);
        const bar = Math.min(54, slot * 0.82 / Math.max(1, its.length));
        its.forEach((cell, index) => at.set(cell, { x: x(place) + (index - (its.length - 1) / 2) * bar, bar }));
      }
    } else panel.cells.forEach((cell) => at.set(cell, { x: x(cell.p[0]) }));
    const groups = series.map(({ value, index }) => node('g', { class: 'series', 'data-series': index, style: colours(value) }));
    const point = (cell, which) => `${at.get(cell).x.toFixed(1)},${y(this.numbers(cell)[which]).toFixed(1)}`;
    series.forEach(({ value, cells }, index) => {
      const group = groups[index];
      if (data.bars) {
        cells.forEach((cell) => this.bar(group, cell, at.get(cell), y, panel.scale.base));
        return;
      }
      cells.sort((a, b) => at.get(a).x - at.get(b).x);
      if (cells.length > 1) {
        const band = [...cells.map((cell) => point(cell, 2)), ...cells.slice().reverse().map((cell) => point(cell, 1))];
        group.append(node('polygon', { class: 'band', points: band.join(' ') }));
        group.append(node('polyline', { class: 'line', points: cells.map((cell) => point(cell, 0)).join(' ') }));
      }
      for (const cell of cells) {
        const [mean, low, upper] = this.numbers(cell);
        if (upper > low) group.append(node('path', { class: 'whisker', d: `M${at.get(cell).x.toFixed(1)} ${y(low).toFixed(1)}V${y(upper).toFixed(1)}` }));
        const made = mark(value.c[2], at.get(cell).x, y(mean), 3.8);
        group.append(made);
      }
    });
    svg.append(...groups);
    this.listen(svg, { panel, places, at, x, y, top, bottom });
    return svg;
  }

  bar(group, cell, { x, bar }, y, base) {
    const [mean, low, upper] = this.numbers(cell);
    const [from, to] = [y(base), y(mean)];
    group.append(node('rect', {
      class: 'bar', x: (x - bar * 0.44).toFixed(1), y: Math.min(from, to).toFixed(1),
      width: (bar * 0.88).toFixed(1), height: Math.max(0.5, Math.abs(from - to)).toFixed(1), rx: 2,
    }));
    if (upper > low) group.append(node('path', { class: 'whisker ink', d: `M${x.toFixed(1)} ${y(low).toFixed(1)}V${y(upper).toFixed(1)}` }));
    if (widthOf(short(mean), 11) <= bar - 1) {
      const text = node('text', { class: 'value', x: x.toFixed(1), y: (y(upper) - 5).toFixed(1), 'text-anchor': 'middle' }, short(mean));
      group.append(text);
    }
  }

  // Where a place is along the horizontal axis, as a part of it.
  along(places) {
    if (this.isBand) return (place) => (places.indexOf(place) + 0.5) / places.length;
    const of = (place) => (this.data.logX ? Math.log(this.data.x.values[place].n) : this.data.x.values[place].n);
    const low = Math.min(...places.map(of)), high = Math.max(...places.map(of));
    return (place) => (high > low ? 0.03 + 0.94 * (of(place) - low) / (high - low) : 0.5);
  }

  listen(svg, { panel, places, at, x, y, top, bottom }) {
    const guide = node('path', { class: 'guide', d: '' });
    const ring = node('circle', { class: 'ring', r: 7, cx: -20, cy: -20 });
    svg.append(guide, ring);
    let current = null;
    const show = (cell, spot, isKey) => {
      current = cell;
      const here = { x: at.get(cell).x, y: y(this.numbers(cell)[0]) };
      if (!this.data.bars) guide.setAttribute('d', `M${here.x.toFixed(1)} ${top}V${bottom}`);
      ring.setAttribute('cx', here.x);
      ring.setAttribute('cy', here.y);
      const its = panel.cells.filter((other) => other.p[0] === cell.p[0]);
      const box = svg.getBoundingClientRect();
      const scale = box.width / svg.viewBox.baseVal.width;
      const place = spot || { x: box.left + here.x * scale, y: box.top + here.y * scale };
      showTip(this.tip(panel, its, cell), place);
      if (isKey) say(this.spoken(panel, cell));
    };
    const hide = () => {
      current = null;
      guide.setAttribute('d', '');
      ring.setAttribute('cx', -20);
      hideTip();
    };
    const nearest = (event) => {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const spot = { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
      if (!panel.cells.length) return;
      let cells = panel.cells;
      if (!this.data.bars) {
        const by = (place) => Math.abs(x(place) - spot.x);
        const column = places.filter((place) => cells.some((cell) => cell.p[0] === place)).reduce((a, b) => (by(b) < by(a) ? b : a));
        cells = cells.filter((cell) => cell.p[0] === column);
      }
      const far = (cell) => (this.data.bars ? Math.abs(at.get(cell).x - spot.x) : Math.abs(y(this.numbers(cell)[0]) - spot.y));
      show(cells.reduce((a, b) => (far(b) < far(a) ? b : a)), { x: event.clientX, y: event.clientY }, false);
    };
    svg.addEventListener('pointermove', nearest);
    svg.addEventListener('pointerdown', nearest);
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('blur', hide);
    svg.addEventListener('keydown', (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (event.key === 'Escape') hide();
      if (!step || !panel.cells.length) return;
      event.preventDefault();
      const order = (a, b) => at.get(a).x - at.get(b).x || a.p[1] - b.p[1];
      if (!current) {
        show(panel.cells.slice().sort(order)[0], null, true);
        return;
      }
      const value = (cell) => this.numbers(cell)[0];
      const line = step[0]
        ? panel.cells.filter((cell) => this.data.bars || cell.p[1] === current.p[1]).sort(order)
        : panel.cells.filter((cell) => cell.p[0] === current.p[0]).sort((a, b) => value(a) - value(b));
      const next = line[line.indexOf(current) + (step[0] || step[1])];
      if (next) show(next, null, true);
    });
  }

  tip(panel, cells, nearest) {
    const { data } = this;
    const column = data.columns[this.column];
    const box = element('div', {});
    box.append(element('p', { class: 'where' }, [panel.name, `${data.x.values[nearest.p[0]].t} ${data.bars ? '' : data.x.label}`.trim()].filter(Boolean).join(' · ')));
    box.append(element('p', { class: 'of' }, `${this.columnText(this.column)}: mean, 90 % interval, runs`));
    const table = element('table', {});
    for (const cell of cells.slice().sort((a, b) => this.numbers(b)[0] - this.numbers(a)[0])) {
      const value = data.by.values[cell.p[1]];
      const [mean, low, high] = this.numbers(cell);
      const row = element('tr', { class: cell === nearest ? 'near' : '', style: colours(value) });
      row.append(element('td', {}, element('i', { class: 'swatch' })), element('td', { class: 'series' }, value.t),
        element('td', { class: 'number' }, exact(mean)),
        element('td', { class: 'number' }, low === high ? 'exact' : `${short(low)} – ${short(high)}`),
        element('td', { class: 'number' }, `${cell.n}`));
      table.append(row);
    }
    box.append(table);
    const [,, , median, tenth, ninth] = this.numbers(nearest);
    const spread = tenth === ninth ? '' : `median ${short(median)}, 80 % of runs ${short(tenth)} – ${short(ninth)}; `;
    box.append(element('p', { class: 'more' }, `${data.by.values[nearest.p[1]].t}: ${spread}first seed ${nearest.s}`));
    if (column.unit.length > 3 && this.column === data.y && !data.yLabel.includes(column.unit)) box.append(element('p', { class: 'more' }, column.unit));
    return box;
  }

  spoken(panel, cell) {
    const { data } = this;
    const [mean, low, high] = this.numbers(cell);
    const interval = low === high ? 'exact' : `interval ${short(low)} to ${short(high)}`;
    return [panel.name, data.x.values[cell.p[0]].t, data.by.values[cell.p[1]].t, `${exact(mean)} ${data.columns[this.column].unit}`, interval, `${cell.n} runs`]
      .filter(Boolean).join(', ');
  }
}

function colours(value) {
  return value.c ? `--c:${value.c[0]};--d:${value.c[1]}` : '';
}
