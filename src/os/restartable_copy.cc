#include "os/restartable_copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__) && __has_include(<sys/rseq.h>)
#define WEFT_HAS_LIVE_COPY 1
#include <sys/rseq.h>
#else
#define WEFT_HAS_LIVE_COPY 0
#endif

namespace weft::os {

#if WEFT_HAS_LIVE_COPY

namespace {

constexpr std::size_t kWord = 8;
/// Policy: of one part. A part that is interrupted so often meets something else than the end of
/// time slices.
constexpr int kMostInterruptions = 16;

/// The area that glibc has registered for this thread; null if it has not.
[[nodiscard]] struct rseq* area_of_thread() {
  std::byte* thread_pointer = nullptr;
  asm("movq %%fs:0, %0" : "=r"(thread_pointer));
  auto* const area = reinterpret_cast<struct rseq*>(thread_pointer + __rseq_offset);
  const bool is_registered = __rseq_size != 0 && static_cast<std::int32_t>(area->cpu_id) >= 0;
  return is_registered ? area : nullptr;
}

// One sequence, from label 1 to label 2, with its descriptor (struct rseq_cs) at 3 and the place at
// 4 to which the kernel sends an interrupted thread; the four bytes before that are the signature
// that glibc registers. The sequence begins with the very store of its descriptor, for the kernel
// forgets a descriptor when it interrupts elsewhere, then looks at the word, and its last
// instruction is the one for which nobody may be sent back once it is done: a peer that has seen
// what it stores may have changed the memory again. `outcome` is 0, 1 or 2 as LiveCopy has them.
#define WEFT_SEQUENCE(instructions)         \
  ".pushsection __rseq_cs, \"aw\"\n\t"      \
  ".balign 32\n"                            \
  "3:\n\t"                                  \
  ".long 0, 0\n\t"                          \
  ".quad 1f, 2f - 1f, 4f\n\t"               \
  ".popsection\n\t"                         \
  "leaq 3b(%%rip), %[scratch]\n\t"          \
  "movq %[scratch], %[descriptor]\n"        \
  "1:\n\t"                                  \
  "cmpq %[live], %[word]\n\t"               \
  "jne 5f\n\t" instructions                 \
  "\n"                                      \
  "2:\n\t"                                  \
  "movl $0, %k[outcome]\n\t"                \
  "jmp 6f\n"                                \
  "5:\n\t"                                  \
  "movl $1, %k[outcome]\n\t"                \
  "jmp 6f\n\t"                              \
  ".pushsection __rseq_failure, \"ax\"\n\t" \
  ".byte 0x0f, 0xb9, 0x3d\n\t"              \
  ".long 0x53053053\n"                      \
  "4:\n\t"                                  \
  "movl $2, %k[outcome]\n\t"                \
  "jmp 6f\n\t"                              \
  ".popsection\n"                           \
  "6:\n"

// Copies, and then stores the tail.
#define WEFT_LIVE_COPY(store_tail)                                                           \
  asm volatile(                                                                              \
      WEFT_SEQUENCE("rep movsb\n\t" store_tail)                                              \
      : [outcome] "=&r"(outcome), [scratch] "=&r"(scratch), [descriptor] "=m"(area.rseq_cs), \
        [to] "+D"(to), [from] "+S"(from), [body] "+c"(body)                                  \
      : [live] "r"(live), [word] "m"(word), [tail] "q"(tail)                                 \
      : "memory", "cc")

static_assert(RSEQ_SIG == 0x53053053, "what glibc registers");

/// Looks at the word, copies `body` bytes, and stores the tail behind them.
template <class Tail>
[[nodiscard]] LiveCopy copy_once(struct rseq& area, const LiveWord& live_word, std::byte* to,
                                 const std::byte* from, std::size_t body, Tail tail) {
  std::uint64_t outcome = 0;
  std::uint64_t scratch = 0;
  const std::uint64_t live = live_word.live;
  const auto& word = live_word.word;
  if constexpr (sizeof(Tail) == kWord) {
    WEFT_LIVE_COPY("movq %q[tail], (%%rdi)");
  } else {
    WEFT_LIVE_COPY("movb %b[tail], (%%rdi)");
  }
  area.rseq_cs = 0;  // it must not outlive this code, which a library takes with it
  return static_cast<LiveCopy>(outcome);
}

#undef WEFT_LIVE_COPY

[[nodiscard]] LiveCopy copy_part_once(struct rseq& area, const LiveWord& word, std::byte* to,
                                      ByteSpan from) {
  const bool ends_with_word =
      from.size() >= kWord && std::bit_cast<std::uintptr_t>(to + from.size()) % kWord == 0;
  const std::size_t body = from.size() - (ends_with_word ? kWord : 1);
  if (ends_with_word) {
    std::uint64_t tail = 0;
    std::memcpy(&tail, from.data() + body, kWord);
    return copy_once(area, word, to, from.data(), body, tail);
  }
  return copy_once(area, word, to, from.data(), body, std::to_integer<unsigned char>(from[body]));
}

// The last instruction of these is the locked one. The kernel finds it done or not begun, so it is
// done once, and what it brings is in its register.

[[nodiscard]] LiveAtomic add_once(struct rseq& area, const LiveWord& live_word, std::byte* at,
                                  std::uint64_t addend) {
  std::uint64_t outcome = 0;
  std::uint64_t scratch = 0;
  const std::uint64_t live = live_word.live;
  const auto& word = live_word.word;
  asm volatile(WEFT_SEQUENCE("lock xaddq %[value], (%[at])")
               : [outcome] "=&r"(outcome), [scratch] "=&r"(scratch),
                 [descriptor] "=m"(area.rseq_cs), [value] "+&r"(addend)
               : [live] "r"(live), [word] "m"(word), [at] "r"(at)
               : "memory", "cc");
  area.rseq_cs = 0;
  return {.outcome = static_cast<LiveCopy>(outcome), .original = addend};
}

[[nodiscard]] LiveAtomic swap_once(struct rseq& area, const LiveWord& live_word, std::byte* at,
                                   std::uint64_t compare, std::uint64_t swap) {
  std::uint64_t outcome = 0;
  std::uint64_t scratch = 0;
  const std::uint64_t live = live_word.live;
  const auto& word = live_word.word;
  asm volatile(WEFT_SEQUENCE("lock cmpxchgq %[swap], (%[at])")
               : [outcome] "=&r"(outcome), [scratch] "=&r"(scratch),
                 [descriptor] "=m"(area.rseq_cs), [value] "+&a"(compare)
               : [live] "r"(live), [word] "m"(word), [at] "r"(at), [swap] "r"(swap)
               : "memory", "cc");
  area.rseq_cs = 0;
  return {.outcome = static_cast<LiveCopy>(outcome), .original = compare};
}

template <class Attempt>
[[nodiscard]] LiveAtomic try_until_done(Attempt attempt) {
  struct rseq* const area = area_of_thread();
  LiveAtomic result{.outcome = LiveCopy::Interrupted};
  for (int tries = 0;
       area != nullptr && tries < kMostInterruptions && result.outcome == LiveCopy::Interrupted;
       ++tries) {
    result = attempt(*area);
  }
  return result;
}

[[nodiscard]] LiveCopy copy_part(struct rseq& area, const LiveWord& word, std::byte* to,
                                 ByteSpan from) {
  LiveCopy outcome = LiveCopy::Interrupted;
  for (int tries = 0; tries < kMostInterruptions && outcome == LiveCopy::Interrupted; ++tries) {
    outcome = copy_part_once(area, word, to, from);
  }
  return outcome;
}

}  // namespace

bool has_live_copy() { return area_of_thread() != nullptr; }

LiveCopy copy_while_live(const LiveWord& word, std::byte* to, ByteSpan from) {
  struct rseq* const area = area_of_thread();
  LiveCopy outcome = area != nullptr ? LiveCopy::Done : LiveCopy::Interrupted;
  while (!from.empty() && outcome == LiveCopy::Done) {
    const ByteSpan part = from.first(std::min(from.size(), kLiveCopyBytes));
    outcome = copy_part(*area, word, to, part);
    from = from.subspan(part.size());
    to += part.size();
  }
  return outcome;
}

LiveAtomic add_while_live(const LiveWord& word, std::byte* at, std::uint64_t addend) {
  return try_until_done([&](struct rseq& area) { return add_once(area, word, at, addend); });
}

LiveAtomic swap_while_live(const LiveWord& word, std::byte* at, std::uint64_t compare,
                           std::uint64_t swap) {
  return try_until_done(
      [&](struct rseq& area) { return swap_once(area, word, at, compare, swap); });
}

#undef WEFT_SEQUENCE

#else

bool has_live_copy() { return false; }

LiveCopy copy_while_live(const LiveWord& /*word*/, std::byte* /*to*/, ByteSpan /*from*/) {
  return LiveCopy::Interrupted;
}

LiveAtomic add_while_live(const LiveWord& /*word*/, std::byte* /*at*/, std::uint64_t /*addend*/) {
  return {.outcome = LiveCopy::Interrupted};
}

LiveAtomic swap_while_live(const LiveWord& /*word*/, std::byte* /*at*/, std::uint64_t /*compare*/,
                           std::uint64_t /*swap*/) {
  return {.outcome = LiveCopy::Interrupted};
}

#endif

}  // namespace weft::os
