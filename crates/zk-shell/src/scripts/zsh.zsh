# Marks of zk for zsh: hooks of their own beside those of the person.
if [[ -o interactive && -z ${__zk_nonce-} ]]; then
  typeset -g __zk_nonce='@NONCE@'
  typeset -gi __zk_installed=0

  # Escapes the control characters and percent signs of $1 into REPLY.
  __zk_escape() {
    emulate -L zsh
    REPLY=${1//\%/%25}
    if [[ $REPLY == *[[:cntrl:]]* ]]; then
      local code char hex
      for code in {1..31} 127; do
        char=${(#)code}
        hex=${(l:2::0:)$(([##16]code))}
        REPLY=${REPLY//$char/%$hex}
      done
    fi
  }

  __zk_preexec() {
    local REPLY
    if [[ -n $1 ]]; then
      __zk_escape "$1"
      builtin printf '\e]7177;%s;C;%s\a' "$__zk_nonce" "$REPLY" >/dev/tty 2>/dev/null
    else
      __zk_escape "$3"
      builtin printf '\e]7177;%s;U;%s\a' "$__zk_nonce" "$REPLY" >/dev/tty 2>/dev/null
    fi
  }

  __zk_precmd() {
    local code=$? REPLY
    __zk_escape "$PWD"
    builtin printf '\e]7177;%s;D;%d;%s\a' "$__zk_nonce" "$code" "$REPLY" >/dev/tty 2>/dev/null
    if (( ! __zk_installed )); then
      __zk_installed=1
      __zk_keys
    fi
    return $code
  }

  __zk_line_init() {
    [[ ${CONTEXT-start} == start ]] || return 0
    builtin printf '\e]7177;%s;R;1\a' "$__zk_nonce" >/dev/tty 2>/dev/null
  }

  __zk_line() {
    builtin printf '\e]7177;%s;L;%d\a' "$__zk_nonce" $(( ${#PREBUFFER} + ${#BUFFER} )) >/dev/tty 2>/dev/null
  }

  __zk_redraw() {
    zle .reset-prompt
  }

  # After the start files of the person, so that their widgets and keymaps exist.
  __zk_keys() {
    emulate -L zsh
    local map
    zle -N __zk_line
    zle -N __zk_redraw
    for map in emacs viins vicmd; do
      bindkey -M $map '\e[7177~' __zk_line
      bindkey -M $map '\e[7178~' __zk_redraw
    done
    autoload -Uz add-zle-hook-widget
    add-zle-hook-widget line-init __zk_line_init
  }

  typeset -ga precmd_functions preexec_functions
  precmd_functions=(__zk_precmd $precmd_functions)
  preexec_functions+=(__zk_preexec)
fi
