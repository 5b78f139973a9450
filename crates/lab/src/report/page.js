// What the page does beside pictures of sweeps: what is pointed at, scenes, filters, light and dark.

const tip = document.getElementById('tip');
const said = document.getElementById('said');

function showTip(content, { x, y }) {
  tip.replaceChildren(content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const [wide, high] = [document.documentElement.clientWidth, window.innerHeight];
  let left = x + 18;
  if (left + width > wide - 8) left = x - 18 - width;
  if (left < 8) left = Math.max(8, (wide - width) / 2);
  let top = y - height / 2;
  if (width > wide * 0.6) top = y + 24 + height > high ? y - 24 - height : y + 24;
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(8, Math.min(high - height - 8, top))}px`;
}

function hideTip() {
  tip.hidden = true;
}

// For those who listen.
function say(text) {
  said.textContent = text;
}

function tipOf(where, rows) {
  const box = element('div', {});
  box.append(element('p', { class: 'where' }, where));
  const table = element('table', {});
  for (const [name, value, colour] of rows) {
    const sample = node('svg', { class: 'scene sample', viewBox: '0 0 14 14' }, node('rect', { x: 1, y: 1, width: 12, height: 12, rx: 3, fill: colour }));
    table.append(element('tr', {}, element('td', {}, sample), element('td', { class: 'series' }, name), element('td', { class: 'number' }, value)));
  }
  if (rows.length) box.append(table);
  return box;
}

// A picture of one run, which comes drawn: its parts say what they are, and its lines what they are worth.
function scene(svg) {
  const host = svg.closest('.chart');
  const parts = [...svg.querySelectorAll('g[data-series]')];
  const lines = [...svg.querySelectorAll('polyline[data-frame]')].map((line) => {
    const numbers = (name) => line.getAttribute(name).split(' ').map(Number);
    const points = line.getAttribute('points').split(' ').map((pair) => pair.split(',').map(Number));
    return {
      line, points, frame: numbers('data-frame'), name: line.dataset.series, colour: line.getAttribute('stroke'),
      x: line.dataset.x, y: line.dataset.y, xRange: numbers('data-x-range'), yRange: numbers('data-y-range'),
    };
  });
  for (const part of parts) {
    const title = part.querySelector('title');
    part.dataset.says = title ? title.textContent : part.dataset.series;
    if (title) title.remove();
    // Thin lines are hard to point at.
    for (const thin of part.querySelectorAll('line')) {
      const thick = thin.cloneNode();
      thick.setAttribute('class', 'hit');
      thick.setAttribute('stroke', 'transparent');
      part.append(thick);
    }
  }
  sceneLegend(host, parts, lines);
  const focus = (part, spot, isKey) => {
    svg.querySelectorAll('.focus').forEach((other) => other.classList.remove('focus'));
    part.classList.add('focus');
    const box = part.getBoundingClientRect();
    const [way, ...words] = part.dataset.says.split(': ');
    const content = tipOf(words.join(': ') || way, []);
    if (words.length) content.append(element('p', { class: 'of' }, way));
    showTip(content, spot || { x: box.left + box.width / 2, y: box.top + box.height / 2 });
    if (isKey) say(part.dataset.says);
  };
  const leave = () => {
    svg.querySelectorAll('.focus').forEach((other) => other.classList.remove('focus'));
    guide.setAttribute('d', '');
    hideTip();
  };
  const guide = node('path', { class: 'guide', d: '' });
  svg.append(guide);
  const point = (at, spot, isKey) => {
    const inside = lines.filter(({ line, frame: [left, top, wide, high] }) => line.style.display !== 'none'
      && at.x >= left - 2 && at.x <= left + wide + 2 && at.y >= top - 12 && at.y <= top + high + 12);
    if (!inside.length) return false;
    const [left, top, wide, high] = inside[0].frame;
    const inX = (x, { xRange }) => xRange[0] + (x - left) / wide * (xRange[1] - xRange[0]);
    const rows = [];
    for (const one of inside) {
      // The last point that is not behind; a line that is over or has not begun says nothing.
      let found = null;
      for (const its of one.points) if (its[0] <= at.x + 0.5) found = its;
      if (!found || one.points[one.points.length - 1][0] < at.x - 4) continue;
      const value = one.yRange[0] + (top + high - found[1]) / high * (one.yRange[1] - one.yRange[0]);
      rows.push([one.name, `${short(value)} ${one.y}`, one.colour]);
    }
    guide.setAttribute('d', `M${at.x} ${top}V${top + high}`);
    const where = `${short(inX(at.x, inside[0]))} ${inside[0].x}`;
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    const view = svg.viewBox.baseVal;
    showTip(tipOf(where, rows), spot || { x: box.left + (at.x - view.x) * scale, y: box.top + (at.y - view.y) * scale });
    if (isKey) say([where, ...rows.map(([name, value]) => `${name} ${value}`)].join(', '));
    return true;
  };
  const over = (event) => {
    const part = event.target.closest('g[data-series]');
    const spot = { x: event.clientX, y: event.clientY };
    if (part) {
      focus(part, spot, false);
      return;
    }
    const box = svg.getBoundingClientRect();
    const view = svg.viewBox.baseVal;
    const scale = view.width / box.width;
    const at = { x: view.x + (event.clientX - box.left) * scale, y: view.y + (event.clientY - box.top) * scale };
    if (!point(at, spot, false)) leave();
  };
  svg.addEventListener('pointermove', over);
  svg.addEventListener('pointerdown', over);
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('blur', leave);
  const height = (part) => {
    const line = part.querySelector('line');
    return line ? Number(line.getAttribute('y1')) : part.getBBox().y;
  };
  let place = -1;
  svg.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (event.key === 'Escape') leave();
    if (!step) return;
    const order = parts.filter((part) => part.style.display !== 'none').sort((a, b) => height(a) - height(b));
    if (order.length) {
      event.preventDefault();
      place = Math.max(0, Math.min(order.length - 1, place + step));
      focus(order[place], null, true);
    } else if (lines.length) {
      event.preventDefault();
      const frames = [...new Map(lines.map(({ frame }) => [frame.join(), frame])).values()];
      place = Math.max(0, Math.min(frames.length * 40 - 1, place + step));
      const [left, top, wide, high] = frames[Math.floor(place / 40)];
      point({ x: left + (place % 40 + 0.5) / 40 * wide, y: top + high / 2 }, null, true);
    }
  });
}

function sceneLegend(host, parts, lines) {
  const frames = new Map();
  for (const { frame, name } of lines) {
    const key = frame.join();
    frames.set(key, (frames.get(key) || new Set()).add(name));
  }
  const names = new Map();
  for (const part of parts) {
    const drawn = part.querySelector('[stroke]');
    if (!names.has(part.dataset.series)) names.set(part.dataset.series, drawn ? drawn.getAttribute('stroke') : '#6b7385');
  }
  // Lines that have a frame for themselves are named by it.
  if ([...frames.values()].some((its) => its.size > 1)) for (const { name, colour } of lines) names.set(name, colour);
  if (names.size < 2) return;
  const legend = element('div', { class: 'legend', role: 'group', 'aria-label': 'What is shown' });
  for (const [name, colour] of names) {
    const sample = node('svg', { class: 'scene sample', viewBox: '0 0 30 14', 'aria-hidden': 'true' },
      node('line', { x1: 1, y1: 7, x2: 29, y2: 7, stroke: colour, 'stroke-width': 3 }));
    const button = element('button', { type: 'button', class: 'series', 'aria-pressed': 'true', 'data-series': name }, sample, name);
    button.addEventListener('click', () => {
      const isShown = button.getAttribute('aria-pressed') !== 'true';
      button.setAttribute('aria-pressed', String(isShown));
      for (const part of host.querySelectorAll('svg.scene [data-series]')) {
        if (part.dataset.series === name && part !== button) part.style.display = isShown ? '' : 'none';
      }
    });
    legend.append(button);
  }
  host.prepend(legend);
}

// The claims of a paper, by verdict and by words.
function filter(section) {
  const bar = section.querySelector('.filter');
  const cards = [...section.querySelectorAll('.claim')];
  const hidden = new Set();
  const search = element('input', { type: 'search', placeholder: 'Find words', 'aria-label': 'Find words in claims' });
  const count = element('span', { class: 'count', 'aria-live': 'polite' });
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const card of cards) {
      const text = card.textContent.toLowerCase();
      card.hidden = hidden.has(card.dataset.verdict) || !words.every((word) => text.includes(word));
      shown += card.hidden ? 0 : 1;
    }
    count.textContent = shown === cards.length ? '' : `${shown} of ${cards.length}`;
  };
  const buttons = [];
  for (const verdict of ['holds', 'fails', 'contradicts', 'unmeasured', 'open']) {
    const its = cards.filter((card) => card.dataset.verdict === verdict);
    if (!its.length) continue;
    const badge = its[0].querySelector('.badge').textContent.replace(/(contradicts).*/, '$1');
    const button = element('button', { type: 'button', class: `badge ${verdict}`, 'aria-pressed': 'true' }, `${badge} ${its.length}`);
    button.addEventListener('click', () => {
      if (!hidden.delete(verdict)) hidden.add(verdict);
      button.setAttribute('aria-pressed', String(!hidden.has(verdict)));
      apply();
    });
    buttons.push(button);
  }
  search.addEventListener('input', apply);
  bar.append(...buttons, search, count);
  bar.hidden = false;
  return () => {
    hidden.clear();
    search.value = '';
    buttons.forEach((button) => button.setAttribute('aria-pressed', 'true'));
    apply();
  };
}

for (const host of document.querySelectorAll('figure[data-kind="sweep"] .chart')) {
  host.chart = new Chart(host, JSON.parse(host.nextElementSibling.textContent));
}
document.querySelectorAll('figure[data-kind="scene"] svg.scene').forEach(scene);
const clear = [...document.querySelectorAll('section.claims')].map(filter);

// Who follows a link to a claim sees it, whatever is filtered.
function arrive() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.hidden) clear.forEach((all) => all());
  for (let at = target.closest('details'); at; at = at.parentElement.closest('details')) at.open = true;
  target.scrollIntoView({ behavior: 'instant' });
}
window.addEventListener('hashchange', arrive);
if (location.hash) arrive();

const root = document.documentElement;
document.getElementById('theme').addEventListener('click', () => {
  root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
  try {
    localStorage.setItem('braidlab-theme', root.dataset.theme);
  } catch {
    // Not kept, where a file may keep nothing.
  }
});

const contents = document.querySelector('#contents details');
const isNarrow = window.matchMedia('(max-width: 1199px)');
const fold = () => { contents.open = !isNarrow.matches; };
isNarrow.addEventListener('change', fold);
fold();
window.addEventListener('scroll', hideTip, { passive: true });
