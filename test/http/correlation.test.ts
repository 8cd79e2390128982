import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readAudit } from '../support/audit.ts';
import { send } from '../support/http.ts';
import { type Place, type Service, startService, until, usualPlace } from '../support/service.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';
const IDS = { trace_id: TRACE, parent_id: SPAN, caller_request_id: 'order-7' };
const HEADERS = {
  traceparent: `00-${TRACE}-${SPAN}-01`,
  tracestate: 'zqvendor=zqstate',
  baggage: 'zqname=zqbaggage',
  'x-request-id': 'order-7',
};
const T = '/api/v1/tokenize';

let place: Place;
let service: Service;
let file: string;
beforeEach(async () => {
  place = await usualPlace();
  file = join(place.folder, 'audit.log');
  service = await startService(place, { AUDIT_LOG: file });
});
afterEach(async () => {
  await service.stop();
  place.remove();
});

/** Lines of the log about requests. */
const logged = () =>
  service
    .output()
    .split('\n')
    .filter((line) => line.includes('"duration_ms"'))
    .map((line) => JSON.parse(line));

test('the ids of a caller are in the lines of the request, and nowhere in the answer', async () => {
  const plain = await send(service, T, '{"data":{"a":"Ann Lee"}}');
  const traced = await send(service, T, '{"data":{"a":"Ann Lee"}}', HEADERS);
  await send(service, T, '{"data":{"a":1}}', HEADERS);
  await send(service, T, '{"data":{}}', { ...HEADERS, authorization: null });
  await send(service, T, '{"data":{}}', { traceparent: 'zq', 'x-request-id': 'zq zq' });
  await until(() => logged().length === 5, 'the lines of the log');
  await service.stop();
  const { lines } = readAudit(file);
  const audited = lines.filter(({ requests }) => requests === undefined);
  const idsOf = ({ trace_id, parent_id, caller_request_id }: Record<string, string>) =>
    JSON.parse(JSON.stringify({ trace_id, parent_id, caller_request_id }));
  expect(logged().map(idsOf)).toEqual([{}, IDS, IDS, IDS, {}]);
  expect(audited.map(idsOf)).toEqual([{}, IDS, IDS, {}]);
  expect(traced.headers.get('x-request-id')).toBe(JSON.parse(traced.text).request_id);
  expect(audited[1].request_id).toBe(traced.headers.get('x-request-id'));
  const own = /[0-9a-f]{8}-[0-9a-f-]{27}/g;
  const shape = (answer: typeof plain) =>
    JSON.stringify([answer.status, [...answer.headers], answer.text])
      .replaceAll(own, 'ID')
      .replace(/\["date","[^"]*"\]/, '');
  expect(shape(traced)).toBe(shape(plain));
  expect(service.output() + JSON.stringify(lines)).not.toMatch(/zq|"tracestate"|"baggage"/);
});
