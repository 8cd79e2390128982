import { useEffect, useRef, useState } from 'preact/hooks';
import { feed } from './feed.ts';
import { Bar } from './parts.tsx';
import { PATHS } from './protocol.ts';
import { send } from './send.ts';

/** The API reference of this service. */
export function Reference() {
  const body = useRef<HTMLDivElement>(null);
  const [isRead, setRead] = useState(false);
  useEffect(() => {
    if (isRead) return;
    readReference().then(
      (nodes) => {
        body.current!.replaceChildren(...nodes);
        setRead(true);
      },
      // Asked for again with the next sample.
      () => {},
    );
  }, [isRead, feed.samples.at(-1) ?? feed.link]);
  return (
    <>
      <Bar title="API reference" />
      {!isRead && <p>Not read yet.</p>}
      {/* biome-ignore lint/a11y: a key on a link is a click */}
      <div class="card reference" ref={body} hidden={!isRead} onClick={follow} />
    </>
  );
}

async function readReference(): Promise<NodeListOf<ChildNode>> {
  const response = await send(PATHS.reference);
  if (!response.ok) throw new Error(String(response.status));
  // The service has escaped every text in it.
  return new DOMParser().parseFromString(await response.text(), 'text/html').body.childNodes;
}

/** The address names the view, so a link into the page cannot be in it. */
function follow(event: Event): void {
  const link = (event.target as Element).closest('a');
  if (!link || link.hasAttribute('download')) return;
  event.preventDefault();
  const target = document.getElementById(link.hash.slice(1));
  target?.setAttribute('tabindex', '-1');
  target?.focus();
}
