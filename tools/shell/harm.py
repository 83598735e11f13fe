"""What a command destroys for good, in words for the user: rows of data.

``command | options | unless | words``: the first row of a command that fits counts. Options are letters, then long
names; ``*``: always; ``~``: a pattern for all of its words, joined by blanks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from tools.localization import t
from tools.shell.words import Word

_ROWS = r"""
git reset | - hard merge keep | | git reset --hard throws away changes that are not committed
git checkout | f force | | git checkout --force throws away changes that are not committed
git checkout | - theirs ours pathspec-from-file |
    | git checkout of files throws away their changes that are not committed
git checkout | ~.* (?:--|\.) .*|.* \S*\.\w{1,5} .*|.* \.{0,2}/.* | bB orphan track
    | git checkout of files throws away their changes that are not committed
git checkout | ~ (?:-\S+ )*[^-]\S* (?:-\S+ )*[^-].* | bB orphan track
    | git checkout of files throws away their changes that are not committed
git checkout | B | | git checkout -B moves a branch and may lose commits
git restore | W worktree | | git restore throws away changes that are not committed
git restore | * | S staged | git restore throws away changes that are not committed
git switch | fC force discard-changes force-create | | git switch with these options throws away changes
git clean | * | n dry-run | git clean deletes files that git does not know
git push | f force force-with-lease force-if-includes mirror |
    | git push --force overwrites commits on the other side
git push | d delete prune | | git push deletes branches or tags on the other side
git push | ~.* :\S.* | | git push deletes branches or tags on the other side
git push | ~.* \+\S.* | | git push +ref overwrites commits on the other side
git push | * | n dry-run | git push sends commits to a server: others may have them at once
git branch | D | | git branch -D deletes a branch, also when its commits are nowhere else
git branch | MCf force | | git branch with force overwrites a branch
git tag | d delete | | git tag -d deletes a tag
git tag | f force | | git tag -f moves a tag
git stash drop | * | | git stash drop throws away stashed changes
git stash clear | * | | git stash clear throws away stashed changes
git rebase | - abort | | git rebase --abort throws away what was done in the rebase
git rebase | * | - quit show-current-patch | git rebase rewrites commits
git gc | ~.* --(?:prune=(?:now|all)|aggressive).* | | git gc --prune deletes commits that nothing points to
git commit | - amend | | git commit --amend replaces the last commit
git filter-branch | * | | git filter-branch rewrites the whole history
git filter-repo | * | | git filter-repo rewrites the whole history
git replace | * | | git replace changes what commits mean
git prune | * | | git prune deletes commits that nothing points to
git reflog | ~ (?:expire|delete).* | | git reflog expire removes the way back to lost commits
git worktree | ~ (?:remove|prune).* | | git worktree remove deletes a folder
git remote | ~ (?:remove|rm|prune).* | | git remote remove forgets a remote and its branches
git submodule deinit | * | | git submodule deinit deletes a folder
git read-tree | * | | git read-tree overwrites the index
git checkout-index | * | | git checkout-index overwrites files
git update-ref | d stdin | | git update-ref -d deletes a reference
git rm | fr force | | git rm -f deletes changed files
rm | rR recursive | | rm -r deletes folders with everything in them
rm | ~.*[*?\[{$`].*|(?: (?:-\S+ )*[^- ]\S*){6,} .* | | rm deletes many files
rm | f force | | rm -f deletes files without asking
find | ~.* -delete .* | | find -delete deletes every file that it finds
dd | ~.* of=(?!/dev/null ).* | | dd of= overwrites what is there
kill | ~.* (?:-9|-KILL|-SIGKILL|-s9|KILL|SIGKILL) .* | | kill -9 ends a program without letting it save
kill | ~ \S+ (?:.* )?-1 .* | | kill ends every program of the user
crontab | r | | crontab -r deletes all timed commands
rsync | - del delete delete-after delete-before delete-excluded remove-source-files |
    | rsync --delete deletes files that the source does not have
shred | * | | shred destroys the content of files
truncate | * | | truncate cuts off the content of files
wipefs | * | | wipefs destroys what is on a device
fdisk | * | | fdisk changes the partitions of a device
parted | * | | parted changes the partitions of a device
mkfs | * | | mkfs destroys everything on a device
chmod | R recursive | | chmod -R changes the rights of everything below a folder
chown | R recursive | | chown -R changes the owner of everything below a folder
chgrp | R recursive | | chgrp -R changes the group of everything below a folder
pkill,killall | * | | it ends every program of that name
shutdown,reboot,halt,poweroff | * | | it stops the computer
sudo,doas,pkexec | * | | {} runs a command with the rights of another user
su,runuser | * | | {} runs commands with the rights of another user
chroot | * | | chroot runs a command in another root folder
nsenter | * | | nsenter runs a command elsewhere
docker,podman,nerdctl,docker-compose | ~ (?:-\S+ )*(?:\S+ )?(?:-\S+ )*prune .* |
    | docker prune deletes images, containers or volumes
docker,podman,nerdctl,docker-compose | ~ (?:-\S+ )*(?:rmi?|volume (?:-\S+ )*rm) .* |
    | docker rm deletes containers, images or volumes
docker,podman,nerdctl,docker-compose | ~.* down (?:.* )?(?:-v|--volumes) .* |
    | docker compose down -v deletes volumes
kubectl,oc,helm | ~(?: \S+){0,2} (?:delete|drain|uninstall) .* | | it deletes things in a cluster
terraform,tofu,pulumi | ~(?: \S+)? (?:destroy|apply) .* | | it changes real infrastructure
npm,pnpm,yarn,uv,poetry,hatch,vsce | ~(?: \S+)? (?:un)?publish .* | | {} publish publishes for everybody
twine | ~(?: \S+)? upload .* | | twine upload publishes for everybody
cargo | ~(?: \S+)? (?:publish|yank) .* | | cargo publish publishes for everybody
gem | ~(?: \S+)? (?:push|yank) .* | | gem push publishes for everybody
gh,glab | ~ (?:-\S+ )*\S+ (?:-\S+ )*(?:create|comment|edit|review|reopen|upload|run|set|rerun) .* |
    | {} sends something to a server: others see it at once
gh,glab | ~ api .*(?:-[XfF]|--(?:method|field|raw-field|input)).* | | {} api changes something on a server
gh,glab | ~ \S+ (?:delete|merge|close|archive|transfer) .* | | {} changes what others see
curl | ~.* (?:-[sSfLkvig]*[dFT]|--(?:data|json|form|upload-f)).* | | curl sends data to a server
curl | ~.* (?:-[sSfLkvig]*X ?|--request[ =])(?!(?:GET|HEAD|OPTIONS) ).* | | curl sends data to a server
wget | ~.* --(?:post|body|method=(?!GET|HEAD)).* | | wget sends data to a server
systemctl | ~ (?:stop|disable|mask|poweroff|reboot|kill) .* | | it stops or changes a service
dropdb | * | | dropdb deletes a database
goalwright,goalwright-daemon | * | | it talks to Goalwright itself, which asks for permissions
"""


@cache
def _rows() -> dict[str, list[tuple[Sequence[str], str, str, str]]]:
    found: dict[str, list[tuple[Sequence[str], str, str, str]]] = {}
    for line in _ROWS.strip().replace("\n    | ", " | ").splitlines():
        command, rest = line.split(" | ", 1)
        left, words = rest.rsplit("| ", 1)
        condition, unless = left.rsplit(" |", 1)
        names, *sub = command.split(" ")
        for name in names.split(","):
            found.setdefault(name, []).append((sub, condition, unless.strip(), words))
    return found


def warning(name: str, words: Sequence[Word]) -> str:
    """What cannot be undone; empty when nothing is known to be."""
    texts = [word.text for word in words]
    if name == "git":
        while texts and texts[0].startswith("-"):
            takes = texts[0] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env")
            texts = texts[2 if takes else 1 :]
    for sub, condition, unless, said in _rows().get("mkfs" if name.startswith("mkfs") else name, ()):
        if (
            texts[: len(sub)] == sub
            and _fits(condition, texts[len(sub) :])
            and not (unless and _fits(unless, texts))
        ):
            return t(said).replace("{}", name)
    return ""


def _fits(condition: str, texts: Sequence[str]) -> bool:
    if condition == "*":
        return True
    if condition.startswith("~"):
        return re.fullmatch(condition[1:], " " + "".join(f"{text} " for text in texts), re.DOTALL) is not None
    letters, *longs = condition.split(" ")
    for text in texts:
        if text == "--":
            return False
        option = text.partition("=")[0]
        if option.startswith("--"):
            if any(
                f"--{long}" == option or (len(option) > 4 and f"--{long}".startswith(option))
                for long in longs
            ):
                return True
        elif text.startswith("-") and any(letter in text[1:] for letter in letters if letter != "-"):
            return True
    return False
