import type { KindSettings, Shape } from '../shape/kind-settings.ts';

/** A kind without declared options. */
export function defaultKind(name: string, shape: Shape): KindSettings {
  return {
    name,
    shape,
    keep: 'nothing',
    keep_first: 0,
    keep_last: 0,
    begins_with: '',
    check_digits: 'none',
    length: 10,
    suffix: true,
    spelling: [],
    country: null,
    tokens: null,
    time_to_live_s: null,
    mask: shape === 'digits' ? { show: 'ends', first: 0, last: 4 } : { show: 'nothing' },
  };
}
