// hostile_peer ATTACK SECONDS: lives on $WEFT_HOST of $WEFT_FABRIC and lies for so long to every
// process that it finds, or to the daemon. Prints its process id and how many lies it told; exit
// status 3 when something worked that must not.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "host/process.h"
#include "liar.h"
#include "os/clock.h"
#include "os/run_directory.h"

namespace {

using weft::hostile::Attack;
using weft::hostile::Liar;

const Attack* find_attack(std::string_view name) {
  for (const auto attacks : {weft::hostile::lane_attacks(), weft::hostile::control_attacks()}) {
    for (const Attack& attack : attacks) {
      if (attack.name == name) {
        return &attack;
      }
    }
  }
  return nullptr;
}

void lie(Liar& liar, const Attack& attack, weft::Instant until) {
  if (attack.attaches) {
    liar.attach();
  }
  fmt::print("pid {}\n", getpid());
  std::fflush(stdout);
  while (weft::os::now() < until && liar.broken.empty()) {
    if (attack.act_alone != nullptr) {
      attack.act_alone(liar);
      continue;
    }
    liar.look_around();
    std::vector<weft::uabi::ProcessAddress> now_there;
    for (const auto& [address, victim] : liar.victims) {
      now_there.push_back(address);
    }
    for (const auto address : now_there) {
      if (const auto found = liar.victims.find(address); found != liar.victims.end()) {
        attack.act(liar, found->second);
      }
    }
    if (liar.victims.empty()) {
      usleep(1'000);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    for (const auto attacks : {weft::hostile::lane_attacks(), weft::hostile::control_attacks()}) {
      for (const Attack& attack : attacks) {
        fmt::print("{}\n", attack.name);
      }
    }
    return count == 1 ? 0 : 2;
  }
  const Attack* const attack = find_attack(arguments[1]);
  if (attack == nullptr) {
    fmt::print(stderr, "hostile_peer: no attack {}\n", arguments[1]);
    return 2;
  }
  const auto options = weft::host::options_of_environment();
  Liar liar{weft::os::control_path(options.run, options.fabric), options.host, 1};
  lie(liar, *attack,
      weft::os::now() +
          weft::Duration::milliseconds(static_cast<std::int64_t>(std::atof(arguments[2]) * 1'000)));
  fmt::print("lies {}\n", liar.done);
  if (!liar.broken.empty()) {
    fmt::print("broken: {}\n", liar.broken);
    return 3;
  }
  return 0;
}
