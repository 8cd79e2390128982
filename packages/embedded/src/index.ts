export { EmbeddedDatabase, EmbeddedError, type SocketAddress } from './embedded-database.ts';
export { lockPath } from './lock.ts';
export { hasDatabase, openedTwice } from './owner.ts';
