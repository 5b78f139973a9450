// Points at each picture, presses keys and buttons, and leaves what it finds on the page.
(() => {
  const tip = document.getElementById('tip');
  const move = (target, x, y) => target.dispatchEvent(new PointerEvent('pointermove', { clientX: x, clientY: y, bubbles: true }));
  const middle = (box) => [box.left + box.width / 2, box.top + box.height / 2];
  const isShown = (shape) => shape.getClientRects().length > 0;

  const texts = (figure) => {
    const clipped = [], overlapping = [];
    for (const svg of figure.querySelectorAll('svg.panel')) {
      const around = svg.getBoundingClientRect();
      const boxes = [...svg.querySelectorAll('text')].map((text) => ({ text, box: text.getBoundingClientRect() }));
      for (const { text, box } of boxes) {
        const isOut = box.left < around.left - 1 || box.right > around.right + 1
          || box.top < around.top - 1 || box.bottom > around.bottom + 1;
        if (isOut) clipped.push(text.textContent);
      }
      // What stands on a bar may meet what stands on the next; axes and names may not.
      const fixed = boxes.filter(({ text }) => !text.classList.contains('value'));
      fixed.forEach((one, index) => fixed.slice(index + 1).forEach((other) => {
        const [a, b] = [one.box, other.box];
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 1 && high > 3.5) overlapping.push(`${one.text.textContent} | ${other.text.textContent}`);
      }));
    }
    return { clipped, overlapping };
  };

  const look = (figure) => {
    const panel = figure.querySelector('svg.panel');
    const drawn = panel || figure.querySelector('svg.scene:not(.sample)');
    const shapes = 'svg.panel .mark, svg.panel rect.bar, svg.scene:not(.sample) line, svg.scene:not(.sample) polyline';
    const found = { id: figure.id, marks: figure.querySelectorAll(shapes).length, tip: '', keys: '', silent: true, legend: null, ...texts(figure) };
    if (!drawn) return found;
    drawn.scrollIntoView({ behavior: 'instant', block: 'center' });
    const part = drawn.querySelector('g[data-series] .hit');
    const line = drawn.querySelector('polyline[data-frame]');
    if (panel) move(panel, ...middle(panel.getBoundingClientRect()));
    else if (part) move(part, ...middle(part.getBoundingClientRect()));
    else if (line) move(drawn, ...middle(line.getBoundingClientRect()));
    found.silent = !panel && !part && !line;
    found.tip = tip.hidden ? '' : tip.textContent;
    document.getElementById('said').textContent = '';
    drawn.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
    found.keys = document.getElementById('said').textContent;
    const button = figure.querySelector('.legend button');
    if (button) {
      const its = () => [...figure.querySelectorAll('.chart g[data-series], .chart polyline[data-series]')]
        .filter((shape) => shape.dataset.series === button.dataset.series && isShown(shape)).length;
      const before = its();
      button.click();
      const hidden = its();
      button.click();
      found.legend = [before, hidden, its()];
    }
    return found;
  };

  const root = document.documentElement;
  const found = { errors: window.errors, figures: [...document.querySelectorAll('figure')].map(look) };
  found.overflow = root.scrollWidth - root.clientWidth;
  found.theme = [root.dataset.theme];
  document.getElementById('theme').click();
  found.theme.push(root.dataset.theme);
  const verdict = document.querySelector('.filter button');
  if (verdict) verdict.click();
  found.filtered = [...document.querySelectorAll('.claim')].filter(isShown).length;
  const result = document.createElement('pre');
  result.id = 'probe';
  result.textContent = JSON.stringify(found);
  document.body.append(result);
})();
