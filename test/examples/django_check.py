"""Runs the Django recipe: on a model with a TokenField, in SQLite."""

import json
import os

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    STANDIN_URL=os.environ["STANDIN_URL"],
    STANDIN_API_KEY=os.environ["STANDIN_API_KEY"],
)
django.setup()

from django.db import connection, models  # noqa: E402

from tokens import TokenField, restore  # noqa: E402


class Customer(models.Model):
    name = models.CharField(max_length=80)
    email = TokenField(max_length=84, null=True)

    class Meta:
        app_label = "recipe"


def stored():
    with connection.cursor() as cursor:
        cursor.execute("select name, email from recipe_customer order by id")
        return cursor.fetchall()


with connection.schema_editor() as editor:
    editor.create_model(Customer)
Customer.objects.create(name="Ann", email="ann@example.com")
Customer.objects.create(name="Bo", email=None)
Customer.objects.create(name="Cy", email="")
first = stored()
# What was read is written as it was.
ann = Customer.objects.get(email="ann@example.com")
ann.name = "Anna"
ann.save()
again = stored()
print(json.dumps({"first": first, "again": again, "restored": restore([ann.email])}))
