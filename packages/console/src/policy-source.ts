import type { Feed } from './feed.ts';
import { Polled } from './polled.ts';
import { PATHS, type PolicyDetail } from './protocol.ts';

/** The kinds and fields of the policy in force, asked for again when it changes. */
export class PolicySource {
  /** undefined: there is no policy, or it did not come yet. */
  detail: PolicyDetail | undefined;
  readonly #polled: Polled<PolicyDetail>;

  constructor(changed: (detail: PolicyDetail) => void = () => {}) {
    this.#polled = new Polled((detail) => {
      this.detail = detail;
      changed(detail);
    });
  }

  update(feed: Feed): void {
    const { version, tag } = feed.state?.policy ?? { version: 0, tag: null };
    const { detail } = this;
    const isKnown = tag === detail?.tag && version === detail.version && detail.document !== null;
    if (tag === null) this.detail = undefined;
    else if (!isKnown) this.#polled.update(PATHS.policy, feed);
  }
}
