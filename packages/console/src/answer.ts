import { useEffect, useRef, useState } from 'preact/hooks';
import { feed } from './feed.ts';
import { PATHS, type PolicyDetail } from './protocol.ts';
import { ask, type Refused } from './send.ts';

interface Fetched<T> {
  /** The last success; undefined: there was none. */
  readonly answer: T | undefined;
  /** Of the last answer; 0: there is none. */
  readonly status: number;
}

const NONE = { answer: undefined, status: 0 };

/**
 * What the service answers to a view, asked for again after every sample while the view is visible.
 * @param path null: asks for nothing, and keeps what is known
 */
export function useAnswer<T>(path: string | null): Fetched<T> {
  const [known, setKnown] = useState<Fetched<T> & { path?: string }>(NONE);
  const isAsking = useRef(false);
  const isCurrent = known.path === path || path === null;
  useEffect(() => {
    // What is not there is not asked for again.
    const isMissing = known.path === path && known.status === 404;
    if (path === null || isMissing || isAsking.current) return;
    isAsking.current = true;
    ask<T>(path)
      .then((answer) => setKnown({ answer, status: 200, path }))
      // A service that is away needs no words here: the header says so.
      .catch(({ status }: Refused) => {
        if (status > 0)
          setKnown((before) => ({ ...(before.path === path ? before : NONE), status, path }));
      })
      .finally(() => {
        isAsking.current = false;
      });
  }, [path, feed.samples.at(-1) ?? feed.link]);
  return isCurrent ? known : NONE;
}

/** The policy in force, asked for again when it changes; undefined: none, or it did not come. */
export function usePolicy(): PolicyDetail | undefined {
  const { version, tag } = feed.state?.policy ?? { version: 0, tag: null };
  const known = useRef<PolicyDetail | undefined>(undefined);
  const { current: detail } = known;
  const isKnown = tag === detail?.tag && version === detail.version && detail.document !== null;
  const { answer } = useAnswer<PolicyDetail>(tag === null || isKnown ? null : PATHS.policy);
  known.current = tag === null ? undefined : answer;
  return known.current;
}

/** What is no longer known stays, with the time at which it was. */
export function useLatest<T>(now: T | null | undefined): { known?: T; atMs?: number } {
  const latest = useRef<{ known?: T; atMs?: number }>({});
  if (now) latest.current = { known: now, atMs: feed.nowMs };
  return latest.current;
}
