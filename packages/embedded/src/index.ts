export { EmbeddedDatabase, EmbeddedError, type SocketAddress } from './embedded-database.ts';
export { openedTwice } from './owner.ts';
