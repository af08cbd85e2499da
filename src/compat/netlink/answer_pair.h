#pragma once

// Where the daemon answers one frame of a program (uabi/netlink_frames.h): a socket pair, whose one
// end goes with the frame. A pair costs as much to make and close as the question itself, so a
// process keeps one; threads that ask at the same time have pairs of their own. Nothing here
// throws, allocates or waits without a bound, and errno says what failed. Any thread.

#include <sys/stat.h>
#include <sys/types.h>

#include <array>

#include "uabi/netlink_frames.h"

namespace weft::compat {

/// The process whose memory this is. A child of vfork() has it on loan: what it closes, its parent
/// has still open.
[[nodiscard]] bool is_own_memory();

/// At the start of a process, and in the child of a fork(): the pair that the parent keeps is its
/// own, and answers to two processes would mix in it.
void become_owner();

class AnswerPair {
 public:
  /// Takes the kept pair if nobody has it, else makes one.
  AnswerPair();
  /// Keeps the pair for the next, unless another is kept or an answer may yet come.
  ~AnswerPair();
  AnswerPair(const AnswerPair&) = delete;
  AnswerPair& operator=(const AnswerPair&) = delete;

  /// False with errno: no pair could be made.
  [[nodiscard]] bool is_made() const { return pair_.own >= 0; }

  /// Goes with the frame.
  [[nodiscard]] int daemons_end() const { return pair_.daemons; }

  /// Waits for the answer to a frame that was sent by the connection; false with errno.
  [[nodiscard]] bool await(int connection, uabi::NetlinkAnswer& answer);

 private:
  /// Which socket a descriptor is.
  struct Identity {
    dev_t device{};
    ino_t inode{};
    bool operator==(const Identity&) const = default;
  };
  struct Pair {
    int own{-1};
    int daemons{-1};
    std::array<Identity, 2> identities{};
  };
  struct Kept;

  [[nodiscard]] static bool identify(int fd, Identity& identity);
  [[nodiscard]] static bool is_still(int fd, const Identity& identity);
  [[nodiscard]] static Pair make();
  static void close(const Pair& pair);

  friend void become_owner();
  static Kept kept;

  Pair pair_;
  bool is_settled_{true};  // no answer may come any more
};

}  // namespace weft::compat
