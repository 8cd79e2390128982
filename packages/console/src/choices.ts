import { el } from './dom.ts';

/**
 * One of a few, side by side.
 * @param legend for screen readers, and different from those of the other choices
 * @param first chosen at the start
 */
export function choices(
  legend: string,
  names: readonly string[],
  first: number,
  choose: (chosen: number) => void,
): HTMLFieldSetElement {
  const labels = names.map((name, i) => {
    const change = () => choose(i);
    const choice = el('input', { type: 'radio', name: legend, checked: i === first, change });
    return el('label', {}, choice, el('span', {}, name));
  });
  return el('fieldset', { class: 'choices' }, el('legend', { class: 'unseen' }, legend), ...labels);
}
