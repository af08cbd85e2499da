#include "daemon/netlink/census.h"

#include <chrono>
#include <iterator>
#include <utility>

namespace weft::daemon {

void ObjectCensus::take(const std::vector<node::ProcessId>& programs,
                        const std::function<void(node::ProcessId, const uabi::ListObjects&)>& ask,
                        std::function<void(const Answers&)> done) {
  const std::uint32_t number = ++last_;
  Question& question = questions_[number];
  question.awaited = {programs.begin(), programs.end()};
  question.done = std::move(done);
  question.timer = std::make_unique<asio::steady_timer>(loop_);
  question.timer->expires_after(std::chrono::nanoseconds{kWaitLimit.nanoseconds()});
  question.timer->async_wait([this, number](const std::error_code& error) {
    if (const auto found = questions_.find(number); !error && found != questions_.end()) {
      finish(found);
    }
  });
  for (const node::ProcessId program : programs) {
    ask(program, {.request = number});  // who has gone meanwhile is forgotten
  }
  if (const auto found = questions_.find(number);
      found != questions_.end() && found->second.awaited.empty()) {
    finish(found);
  }
}

void ObjectCensus::finish(Questions::iterator question) {
  const Question finished = std::move(question->second);
  questions_.erase(question);
  finished.timer->cancel();
  finished.done(finished.answers);
}

bool ObjectCensus::take_answer(node::ProcessId from, uabi::ObjectsHeld part) {
  const auto found = questions_.find(part.request);
  if (found == questions_.end()) {
    return part.request != 0 && part.request <= last_;  // it came too late
  }
  Question& question = found->second;
  if (!question.awaited.contains(from)) {
    return false;
  }
  std::vector<uabi::ObjectsHeld>& parts = question.answers[from];
  if (parts.size() >= kMaxParts) {
    return false;
  }
  const bool is_last = part.is_last;
  parts.push_back(std::move(part));
  if (is_last) {
    question.awaited.erase(from);
    if (question.awaited.empty()) {
      finish(found);
    }
  }
  return true;
}

void ObjectCensus::forget(node::ProcessId program) {
  for (auto at = questions_.begin(); at != questions_.end();) {
    const auto next = std::next(at);
    at->second.answers.erase(program);
    if (at->second.awaited.erase(program) != 0 && at->second.awaited.empty()) {
      finish(at);
    }
    at = next;
  }
}

}  // namespace weft::daemon
