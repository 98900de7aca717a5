"""The templates of one job function: described again only when something has changed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from .naming import version_of_function
from .records import Blob
from .sameness import Proof, prove
from .submission import bind_by, context_blob, describe, inline_job, ship
from .surroundings import Surroundings, surroundings
from .templates import Template

if TYPE_CHECKING:
    from .decorator import JobFunction

# With `by=`, and in job trees, calls of one function have several: so many are kept.
_MOST_TEMPLATES: Final = 64
# A proof costs as much as pickling a few times. One that did not last so many calls was in
# vain, and the next is tried after twice as many as before.
_WORTH_CALLS: Final = 16
_MOST_SKIPPED: Final = 1024


class _Known:
    """What was found at one call, and the templates that follow from it."""

    __slots__ = ("code", "facts", "here", "proof", "templates", "version")

    def __init__(
        self,
        here: Surroundings,
        proof: Proof | None,
        code: Blob,
        version: str,
        facts: tuple[Any, ...],
    ) -> None:
        self.here = here
        self.proof = proof
        self.code = code
        self.version = version
        self.facts = facts
        self.templates: dict[tuple[Any, ...], Template] = {}


class Describer:
    """Gives the template of each call of one job function."""

    def __init__(self, job: "JobFunction[..., Any]") -> None:
        self._job = job
        self._known: _Known | None = None
        self._uses = self._skip = 0
        self._skip_next = 1

    def template(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, detached: bool
    ) -> Template:
        """Give what this call has in common with others.

        Raises:
            NotPicklable: The function cannot travel; the text names what is in the way.
            TooLarge: The function is larger than a message may be.
        """
        here = surroundings()
        known = self._known
        proved = known is not None and known.proof is not None and known.proof.holds()
        if known is None or not proved:
            known = self._known = self._ship_again(known, here)
        elif known.here is not here:
            known = self._known = _Known(
                here, known.proof, known.code, known.version, known.facts
            )
        self._uses += proved
        options = self._job.options
        by = bind_by(self._job, options.by, args, kwargs) if options.by else {}
        parent = inline_job.get() or here.parent
        key = (detached, parent, *((name, type(one), one) for name, one in by.items()))
        template = known.templates.get(key)
        if template is None:
            template = self._describe(known, by, detached, parent)
            if len(known.templates) >= _MOST_TEMPLATES:
                known.templates.clear()
            known.templates[key] = template
        return template

    def _ship_again(self, known: _Known | None, here: Surroundings) -> _Known:
        """Pickle the function; what is known stays so if that gives the same."""
        job = self._job
        proof = self._prove()
        code = ship(job, job.stand_in)
        version = version_of_function(job)
        options = job.options
        facts = (job.job_type, options, dict(options.env), dict(options.resources))
        if (
            known is not None
            and proof is None
            and (known.code.digest, known.version) == (code.digest, version)
            and known.here is here
            and known.facts == facts
        ):
            known.proof = None
            return known
        return _Known(here, proof, code, version, facts)

    def _prove(self) -> Proof | None:
        """Look whether pickling can be left out next time, unless that was mostly in vain."""
        if self._skip:
            self._skip -= 1
            return None
        if self._uses >= _WORTH_CALLS:
            self._skip_next = 1
        self._uses = 0
        self._skip, self._skip_next = self._skip_next, min(2 * self._skip_next, _MOST_SKIPPED)
        return prove(self._job)

    def _describe(
        self, known: _Known, by: dict[str, Any], detached: bool, parent: str
    ) -> Template:
        job = self._job
        context = context_blob(job.options.env)
        like = describe(
            known.code,
            context,
            job_type=job.job_type,
            options=job.options,
            by=by,
            parent=parent,
            detached=detached,
            has_stand_in=job.stand_in is not None,
            version=known.version,
        )
        return Template(like, (known.code, context))


def describer_of(job: "JobFunction[..., Any]") -> Describer:
    """Give the describer of a job function; it has one from its first call on."""
    found = job.describer
    if found is None:
        found = job.describer = Describer(job)
    return found
