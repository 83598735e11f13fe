"""Alembic runs this file to migrate over a connection that ``daemon.store.sql.database`` has opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transaction_per_migration=False)
with context.begin_transaction():
    context.run_migrations()
