import { afterAll, beforeAll, expect, test } from 'vitest';
import { send } from '../support/http.ts';
import { leastPrivilegePlace, type Service, startService } from '../support/service.ts';

let service: Service;
beforeAll(async () => {
  service = await startService(await leastPrivilegePlace());
});
afterAll(async () => {
  await service.stop();
  service.place.remove();
});

/** A44: bodies that are no JSON, after the kinds of JSONTestSuite. `$` stands for a member of `data`. */
const NOT_JSON = [
  '',
  ' ',
  '{',
  '}',
  '[',
  ']',
  '{]',
  '[}',
  '{"data":{"a":"b"}',
  '{"data":{"a":"b"}}}',
  '{"data":{"a":"b"}},',
  '{"data":{"a":"b"}} x',
  '{"data":{"a":"b",}}',
  '{"data":{,"a":"b"}}',
  '{"data":{"a":"b" "c":"d"}}',
  '{"data":{"a"}}',
  '{"data":{"a":}}',
  '{"data":{:"b"}}',
  '{"data":{a:"b"}}',
  "{'data':{}}",
  '{"data":{"a":\'b\'}}',
  '{"data":{"a":b}}',
  '{"data":{"a":"b}}',
  '{"data":{"a":"b\\"}}',
  '{"data":{"a":"\\x41"}}',
  '{"data":{"a":"\\u12"}}',
  '{"data":{"a":"\\u12g4"}}',
  '{"data":{"a":"\\"}}',
  '{"data":{"a":"tab\there"}}',
  '{"data":{"a":"new\nline"}}',
  '{"data":{"a":"\u0000"}}',
  '{"data":{"a":["b",]}}',
  '{"data":{"a":["b" "c"]}}',
  '{"data":{"a":[,]}}',
  '{"data":{"a":01}}',
  '{"data":{"a":+1}}',
  '{"data":{"a":.5}}',
  '{"data":{"a":1.}}',
  '{"data":{"a":1e}}',
  '{"data":{"a":0x1}}',
  '{"data":{"a":NaN}}',
  '{"data":{"a":Infinity}}',
  '{"data":{"a":-}}',
  '{"data":{"a":True}}',
  '{"data":{"a":nul}}',
  '{"data":{"a":undefined}}',
  '{"data":{/**/}}',
  '{"data":{}}//',
  '#{"data":{}}',
  '{"data":{}}\u0000',
  '\u00a0{"data":{}}',
  '\ufeff{"data":{}}',
  '<data/>',
  'data=a',
];
test.each(NOT_JSON)('A44: refused: %j', async (body) => {
  expect((await send(service, '/api/v1/tokenize', body)).status).toBe(400);
});

/** JSON all the same, however it is written. */
const JSON_TEXTS = [
  ' { "data" : { } } ',
  '\t\r\n{"data":{"a":"b"}}\n',
  '{"data":{"a":"\\u0041\\/\\b\\f\\n\\r\\t\\"\\\\"}}',
  '{"data":{"\\u0061":"b"}}',
  '{"data":{"a":"\\ud83d\\ude00"}}',
  '{"data":{"a":"\u007f\u2028\uffff"}}',
  '{"data":{"":""}}',
  '{"data":{"a":[[],{},[{}]]}}',
  '{"x":[1e400,-0,1.5E+3,null,true],"data":{}}',
  '{"data":{"a":"}\\"]{:,"}}',
  '{"data":{"a:b":"\\":\\""}}',
  '{"x":{"data":{"a":1}},"data":{"data":"data"}}',
];
test.each(JSON_TEXTS)('A44: taken: %j', async (body) => {
  const tokenized = await send(service, '/api/v1/tokenize', body);
  expect(tokenized.status, tokenized.text).toBe(200);
  const restored = await send(service, '/api/v1/detokenize', tokenized.text);
  expect(JSON.parse(restored.text).data).toEqual(JSON.parse(body).data);
});
