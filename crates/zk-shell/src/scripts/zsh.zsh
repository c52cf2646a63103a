# Marks of zk for zsh: hooks of their own beside those of the person.
if [[ -o interactive && -z ${__zk_nonce-}@UNLESS@ ]]; then
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
    local REPLY text=$1
    # The history may have dropped blanks, which the line still has.
    if [[ -o hist_reduce_blanks && -n ${__zk_buffer-} ]]; then
      if [[ "${__zk_buffer//[[:space:]]/}" == "${1//[[:space:]]/}" ]]; then
        text=$__zk_buffer
      else
        text=''
      fi
    fi
    if [[ -n $text ]]; then
      __zk_escape "$text"
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
    # @LOCAL
    if (( ! __zk_installed )); then
      __zk_installed=1
      __zk_keys
    fi
    # @END
    return $code
  }

  # @LOCAL: a shell on this machine has keys for zk, and tells when it waits for a line.
  typeset -g __zk_ask=${${(%):-%x}:h}/ask

  __zk_line_init() {
    [[ ${CONTEXT-start} == start ]] || return 0
    builtin printf '\e]7177;%s;R;1\a' "$__zk_nonce" >/dev/tty 2>/dev/null
  }

  __zk_line_finish() {
    typeset -g __zk_buffer=$PREBUFFER$BUFFER
  }

  __zk_line() {
    builtin printf '\e]7177;%s;L;%d\a' "$__zk_nonce" $(( ${#PREBUFFER} + ${#BUFFER} )) >/dev/tty 2>/dev/null
  }

  __zk_redraw() {
    zle .reset-prompt
  }

  # Tells the aliases and functions behind the words in zk's private file, one a line.
  __zk_define() {
    emulate -L zsh
    local REPLY word all=''
    while IFS= read -r word; do
      all+=$(builtin alias -L -- "$word" 2>/dev/null)$'\n'
      all+=$(builtin functions -- "$word" 2>/dev/null)$'\n'
    done 2>/dev/null <"$__zk_ask"
    __zk_escape "${all[1,16384]}"
    builtin printf '\e]7177;%s;F;%s\a' "$__zk_nonce" "$REPLY" >/dev/tty 2>/dev/null
  }

  # After the start files of the person, so that their widgets and keymaps exist.
  __zk_keys() {
    emulate -L zsh
    local map
    zle -N __zk_line
    zle -N __zk_redraw
    zle -N __zk_define
    for map in emacs viins vicmd; do
      bindkey -M $map '\e[1007177u' __zk_line
      bindkey -M $map '\e[1007178u' __zk_redraw
      bindkey -M $map '\e[1007179u' __zk_define
    done
    autoload -Uz add-zle-hook-widget
    add-zle-hook-widget line-init __zk_line_init
    add-zle-hook-widget line-finish __zk_line_finish
  }
  # @END

  typeset -ga precmd_functions preexec_functions
  precmd_functions=(__zk_precmd $precmd_functions)
  preexec_functions+=(__zk_preexec)
fi
