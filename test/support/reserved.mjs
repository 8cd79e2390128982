// --import loads this file into a service. For each response, the service then says how many bytes
// the body has, and how many the request has reserved. This file is JavaScript, because the service
// under test loads it without a compiler.
import { writeSync } from 'node:fs';

const { Exchange } = await import(new URL('../../dist/public/exchange.js', import.meta.url));
const { release } = Exchange.prototype;

Exchange.prototype.release = function () {
  const [, length = 0] = /content-length: (\d+)/i.exec(this.response._header) ?? [];
  const reserved = this.reservation?.bytes ?? 0;
  writeSync(1, `${JSON.stringify({ response: this.id, bytes: Number(length), reserved })}\n`);
  release.call(this);
};
