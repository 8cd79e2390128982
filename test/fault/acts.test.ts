import { describe, expect, test } from 'vitest';
import { ACTS, type Ended, KEY_ACTS, type Rows } from '../support/acts.ts';
import { ADMIN_SETTING } from '../support/admin.ts';
import { times } from '../support/fault.ts';
import { postgresBin } from '../support/postgres.ts';
import { freePort } from '../support/processes.ts';
import { Random } from '../support/random.ts';
import { until } from '../support/service.ts';
import { ENDS, failOver, newPair, replayed, WaitsEnded } from '../support/standby.ts';
import { openedVault } from '../support/vault.ts';

async function newTheatre() {
  const env = { ADMIN_TOKEN: ADMIN_SETTING, OPS_PORT: String(await freePort()) };
  const pair = await newPair(1, env);
  const { place, service: node } = pair;
  const keyring = await openedVault(place).keyring();
  const fingerprintOf = (token: string) =>
    Buffer.from(keyring.tokenFingerprint(token as never), 'latin1').toString('hex');
  const standbyRows: Rows = (text, values) => pair.on(pair.standby, text, values);
  return { ...pair, stage: { place, node, fingerprintOf }, standbyRows };
}

const ALL = { ...ACTS, ...KEY_ACTS };
/** As often as an operator may try while the standby is away. */
const MAX_TRIES = 6;

describe.skipIf(postgresBin === undefined)('every act', () => {
  test('F46: done twice while the standby is away is never acknowledged; what was acknowledged before holds after the failover', async () => {
    const theatre = await newTheatre();
    const { primary, proxy, stage, standbyRows } = theatre;
    const prepared = (prefix: string, acts: typeof ACTS) =>
      Promise.all(
        Object.entries(acts).map(async ([name, prepare]) => {
          const id = `${prefix}-${name.replace('.', '-by-admin-').replace(' ', '-')}`;
          return { name, ...(await prepare(stage, id)) };
        }),
      );
    const before = [...(await prepared('before', ACTS)), ...(await prepared('before', KEY_ACTS))];
    for (const { name, run } of before) {
      // A retire wants a primary that is older than a minute.
      if (name === 'keyring retire')
        await theatre.on(primary, "update standin.keyring set created_at = now() - interval '1 h'");
      const { isAcknowledged, text } = await run();
      expect(isAcknowledged, `${name}: ${text}`).toBe(true);
    }
    const during = await prepared('during', ACTS);
    const onKeys = await prepared('during', KEY_ACTS);

    proxy.silence();
    const ends = new WaitsEnded(theatre, 'pg_cancel_backend');
    const ended: [string, Ended][] = [];
    const twice = async ({ name, run }: (typeof during)[number]) => {
      for (let i = 0; i < 2; i++) ended.push([name, await run()]);
    };
    await Promise.all([
      ...during.map(twice),
      (async () => {
        for (const act of onKeys) await twice(act);
      })(),
    ]);
    await ends.stop();
    expect(ended.filter(([, { isAcknowledged }]) => isAcknowledged)).toEqual([]);
    for (const [name, { text }] of ended) {
      if (name === 'keyring retire' && !text.includes('unavailable')) continue;
      expect(text, name).toMatch(/database unavailable.*(again|go on)/s);
    }

    await failOver(theatre);
    for (const { name, holds } of before)
      expect([name, await holds(standbyRows)]).toEqual([name, true]);
    // As their messages ask.
    for (const { name, run, holds } of during) {
      const { isAcknowledged, text } = await run();
      expect(isAcknowledged, `${name}: ${text}`).toBe(true);
      expect([name, await holds(standbyRows)]).toEqual([name, true]);
    }
  });

  test('F45: of random acts while the standby comes and goes, repeated as they ask, none that was acknowledged is missing on the standby, nor after a failover', async () => {
    const theatre = await newTheatre();
    const { proxy, stage, standbyRows } = theatre;
    const random = new Random();
    // A retire has to wait a minute for the next one.
    const names = Object.keys(ALL).filter((name) => name !== 'keyring retire');
    const kept = new Map<string, (rows: Rows) => Promise<boolean>>();
    let acknowledged = 0;
    let tries = 0;
    for (let round = 0; round < times(6, 200); round++) {
      const prepared = [];
      for (let i = 0; i < 3; i++) {
        const name = random.pick(names);
        prepared.push({ name, ...(await ALL[name]!(stage, `r${round}-${i}`)), i });
      }
      let isAway = random.below(2) === 0;
      const endsBefore = random.below(6);
      if (isAway) proxy.silence();
      const ends = new WaitsEnded(theatre, random.pick(ENDS));
      let checking = 0;
      const work = prepared.map(async ({ name, run, holds, i }) => {
        for (let n = 0; n < MAX_TRIES; n++) {
          tries++;
          if (!(await run()).isAcknowledged) continue;
          acknowledged++;
          checking++;
          // What comes later must not count.
          if (isAway) {
            await replayed(theatre);
            expect([name, round, await holds(standbyRows)]).toEqual([name, round, true]);
          } else await until(() => holds(standbyRows), `${name} on the standby`);
          checking--;
          // Another rewrap follows.
          kept.set(name === 'keyring rewrap' ? name : `r${round}-${i}`, holds);
          return;
        }
      });
      const all = Promise.allSettled(work);
      let isOver = false;
      void all.then(() => (isOver = true));
      proxy.silence();
      isAway = true;
      await until(() => isOver || (ends.count >= endsBefore && checking === 0), 'waits', 240_000);
      isAway = false;
      proxy.heal();
      await ends.stop();
      await Promise.all(work);
    }
    console.log(`F45: ${tries} tries, ${acknowledged} acknowledged`);
    expect(acknowledged).toBeGreaterThan(0);
    proxy.silence();
    await failOver(theatre);
    for (const [id, holds] of kept) expect([id, await holds(standbyRows)]).toEqual([id, true]);
  });
});
