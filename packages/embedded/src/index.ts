export { EmbeddedDatabase, EmbeddedError, type SocketAddress } from './embedded-database.ts';
export { hasDatabase, openedTwice } from './owner.ts';
