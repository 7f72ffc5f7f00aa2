"""Turn pending outcomes into judged ones.

In go jobs (`model.judging.JudgeJob`), each a trace with the outcomes that wait for the judge; out come judgements, with
a final outcome for each and the exchanges with the model.

    referrals              decide at evaluation which outcomes the judge is to give, without asking
    queue                  holds the jobs and works them off, through outages of the endpoint
    judgements, panel      have a trace judged by votes, and make outcomes of them
    one_vote, materials    choose the questions of a vote about a trace, and what is shown of it
    questions, prompt      hold what is asked, and how a trace is shown
    asking, checks, cache  put a question until its reply is valid, once for equal questions
    rechecks, bias         put a trace to the judge again, to see whether it drifts, and what it minds
    budget, client         account for each HTTP request, and send it
"""
