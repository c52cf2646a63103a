if @HAS_ZDOTDIR@; then
  ZDOTDIR=@ZDOTDIR@
else
  unset ZDOTDIR
fi
if [[ -r ${ZDOTDIR:-$HOME}/.zshenv ]]; then
  . "${ZDOTDIR:-$HOME}/.zshenv"
fi
